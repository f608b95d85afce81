-- Procedure:  list_queue_figures
-- Purpose:    A page of the queues, by rising id, with how many messages wait in each.
-- Tables:     queues, put_states, take_states (read)
CREATE OR REPLACE FUNCTION telesto.list_queue_figures(
    after_id bigint,             -- the last queue of the page before; 0 for the first page
    max_rows int,                -- at most this many
    pattern text,                -- only those whose name is LIKE this; NULL for all
    visible text[] DEFAULT NULL  -- only those whose name matches one of these patterns; NULL for all
)
RETURNS TABLE (
    queue_id bigint,  -- a queue
    name text,        -- its name
    depth bigint      -- messages that wait
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    likes constant text[] := telesto.like_patterns(visible);
BEGIN
    RETURN QUERY
    SELECT queue.queue_id, queue.name, put.total - taken.total
    FROM (SELECT queue.queue_id, queue.name FROM telesto.queues AS queue
          WHERE queue.queue_id > after_id AND (pattern IS NULL OR queue.name LIKE pattern)
            AND (visible IS NULL OR queue.name LIKE ANY (likes))
          ORDER BY queue.queue_id
          LIMIT max_rows) AS queue
    CROSS JOIN LATERAL (SELECT put.total FROM telesto.put_states AS put
                        WHERE put.queue_id = queue.queue_id
                        ORDER BY put.version DESC
                        LIMIT 1) AS put
    CROSS JOIN LATERAL (SELECT taken.total FROM telesto.take_states AS taken
                        WHERE taken.queue_id = queue.queue_id
                        ORDER BY taken.version DESC
                        LIMIT 1) AS taken
    ORDER BY queue.queue_id;
END
$$;
