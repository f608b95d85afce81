-- Procedure:  queue_statistics
-- Purpose:    Counts what a queue holds, from its states, whatever its length.
-- Parameters:
--   queue_id bigint         the queue
-- Returns:
--   error smallint          NULL or QUEUE_NOT_EXISTING (7)
--   depth bigint            messages that wait
--   directed_depth bigint   those of them that wait for one receiver
--   put_total bigint        messages ever put
--   taken_total bigint      messages ever taken and not given back
--   max_messages bigint     the bound; NULL without one
-- Errors:     none raised
-- Locks:      none
-- Tables:     queues, put_states, take_states (read)
CREATE OR REPLACE FUNCTION telesto.queue_statistics(
    queue_id bigint,
    OUT error smallint,
    OUT depth bigint,
    OUT directed_depth bigint,
    OUT put_total bigint,
    OUT taken_total bigint,
    OUT max_messages bigint
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, telesto, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    SELECT put.total - taken.total, put.directed_total - taken.directed_total, put.total, taken.total,
           queue.max_messages
    INTO depth, directed_depth, put_total, taken_total, queue_statistics.max_messages
    FROM telesto.queues AS queue
    CROSS JOIN LATERAL (SELECT put.* FROM telesto.put_states AS put
                        WHERE put.queue_id = queue.queue_id
                        ORDER BY put.version DESC
                        LIMIT 1) AS put
    CROSS JOIN LATERAL (SELECT taken.* FROM telesto.take_states AS taken
                        WHERE taken.queue_id = queue.queue_id
                        ORDER BY taken.version DESC
                        LIMIT 1) AS taken
    WHERE queue.queue_id = queue_statistics.queue_id;
    error := CASE WHEN NOT FOUND THEN 7 END;
END
$$;
