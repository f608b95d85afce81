-- Procedure:  topic_numbers
-- Purpose:    How far topics are: what a middleware asks for its waiting gets now and then, because wake-ups
--             are only hints.
-- Parameters:
--   topic_ids bigint[]      the topics
-- Returns:
--   topic_id bigint         a topic
--   last_number bigint      the number of its last message
-- Errors:     none raised
-- Locks:      none
-- Tables:     topic_states (read)
CREATE OR REPLACE FUNCTION telesto.topic_numbers(topic_ids bigint[])
RETURNS TABLE (topic_id bigint, last_number bigint)
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
    RETURN QUERY
    SELECT topic.topic_id, state.last_number
    FROM (SELECT unnest(topic_ids) AS topic_id) AS topic
    CROSS JOIN LATERAL (SELECT state.last_number FROM telesto.topic_states AS state
                        WHERE state.topic_id = topic.topic_id
                        ORDER BY state.version DESC
                        LIMIT 1) AS state;
END
$$;
