-- Procedure:  ready_queues
-- Purpose:    Which of the queues hold messages, and which are gone: what a middleware asks for its waiting
--             reads now and then, because wake-ups are only hints.
-- Tables:     put_states, take_states (read)
CREATE OR REPLACE FUNCTION telesto.ready_queues(
    queue_ids bigint[]  -- the queues
)
RETURNS TABLE (
    queue_id bigint,  -- a queue
    depth bigint,     -- messages that wait; 0 when it does not exist
    "exists" boolean  -- whether it exists
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT queue.queue_id, coalesce(put.total - taken.total, 0), taken.total IS NOT NULL
    FROM (SELECT unnest(queue_ids) AS queue_id) AS queue
    LEFT JOIN LATERAL (SELECT put.total FROM telesto.put_states AS put
                       WHERE put.queue_id = queue.queue_id
                       ORDER BY put.version DESC
                       LIMIT 1) AS put ON true
    LEFT JOIN LATERAL (SELECT taken.total FROM telesto.take_states AS taken
                       WHERE taken.queue_id = queue.queue_id
                       ORDER BY taken.version DESC
                       LIMIT 1) AS taken ON true;
END
$$;
