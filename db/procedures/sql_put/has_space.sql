-- Procedure:  has_space
-- Purpose:    Whether a queue could take a message now, as far as can be told without its lock. A queue that
--             does not exist counts as one with space: what is staged for it has to be looked at.
-- Returns:
--   boolean
-- Tables:     queues, put_states, take_states (read)
CREATE OR REPLACE FUNCTION telesto.has_space(
    queue_id bigint  -- the queue
)
RETURNS boolean
LANGUAGE sql STABLE
AS $$
SELECT coalesce(
    (SELECT state.total - taken.total < queue.max_messages
     FROM telesto.queues AS queue
     CROSS JOIN LATERAL (SELECT state.total FROM telesto.put_states AS state
                         WHERE state.queue_id = queue.queue_id
                         ORDER BY state.version DESC LIMIT 1) AS state
     CROSS JOIN LATERAL (SELECT taken.total FROM telesto.take_states AS taken
                         WHERE taken.queue_id = queue.queue_id
                         ORDER BY taken.version DESC LIMIT 1) AS taken
     WHERE queue.queue_id = has_space.queue_id AND queue.max_messages IS NOT NULL),
    true)
$$;
