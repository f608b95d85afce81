-- Procedure:  topic_numbers
-- Purpose:    How far topics are: what a middleware asks for its waiting gets now and then, because wake-ups
--             are only hints.
-- Tables:     topic_states (read)
CREATE OR REPLACE FUNCTION telesto.topic_numbers(
    topic_ids bigint[]  -- the topics
)
RETURNS TABLE (
    topic_id bigint,    -- a topic
    last_number bigint  -- the number of its last message
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
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
