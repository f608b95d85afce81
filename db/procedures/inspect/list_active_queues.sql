-- Procedure:  list_active_queues
-- Purpose:    A page of the queues that hold a message which the client may read, by rising id.
-- Tables:     queues, put_states, take_states, receiver_states, messages (read)
CREATE OR REPLACE FUNCTION telesto.list_active_queues(
    client_id bigint,            -- the client
    after_id bigint,             -- the last queue of the page before; 0 for the first page
    max_rows int,                -- at most this many
    visible text[] DEFAULT NULL  -- only those whose name matches one of these patterns; NULL for all
)
RETURNS TABLE (
    queue_id bigint,  -- a queue
    name text         -- its name
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    likes constant text[] := telesto.like_patterns(visible);
BEGIN
    RETURN QUERY
    SELECT queue.queue_id, queue.name
    FROM telesto.queues AS queue
    CROSS JOIN LATERAL (SELECT put.* FROM telesto.put_states AS put
                        WHERE put.queue_id = queue.queue_id
                        ORDER BY put.version DESC
                        LIMIT 1) AS put
    CROSS JOIN LATERAL (SELECT taken.* FROM telesto.take_states AS taken
                        WHERE taken.queue_id = queue.queue_id
                        ORDER BY taken.version DESC
                        LIMIT 1) AS taken
    WHERE queue.queue_id > after_id
      AND (visible IS NULL OR queue.name LIKE ANY (likes))
      AND (put.total - put.directed_total - put.hidden_total
           > taken.total - taken.directed_total - taken.hidden_total
           OR (put.directed_total > taken.directed_total
               AND telesto.has_own_message(queue.queue_id, list_active_queues.client_id)))
    ORDER BY queue.queue_id
    LIMIT max_rows;
END
$$;
