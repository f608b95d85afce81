-- Procedure:  list_topics
-- Purpose:    A page of the topics, by rising id.
-- Errors:     TL032 PERMISSION_DENIED
-- Tables:     topics, topic_states, subscriptions, positions (read)
CREATE OR REPLACE FUNCTION telesto.list_topics(
    after_id bigint,             -- the last topic of the page before; 0 for the first page
    max_rows int,                -- at most this many
    pattern text DEFAULT NULL,   -- only those whose name is LIKE this; NULL for all
    visible text[] DEFAULT NULL  -- only those whose name matches one of these patterns; NULL for all
)
RETURNS TABLE (
    topic_id bigint,     -- a topic
    name text,           -- its name
    last_number bigint,  -- the number of the last message put
    subscribers bigint,  -- subscriptions that are owed what is put
    depth bigint         -- messages that some subscription has not confirmed
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    -- An application sees no more than its user, whatever it asks for.
    shown constant text[] := coalesce(telesto.seen_patterns(telesto.sql_caller()), visible);
    likes constant text[] := telesto.like_patterns(shown);
BEGIN
    RETURN QUERY
    SELECT topic.topic_id, topic.name, state.last_number, state.subscribers,
           state.last_number - coalesce(least(telesto.lowest_position(topic.topic_id), state.last_number),
                                        state.last_number)
    FROM (SELECT topic.topic_id, topic.name FROM telesto.topics AS topic
          WHERE topic.topic_id > after_id AND (pattern IS NULL OR topic.name LIKE pattern)
            AND (shown IS NULL OR topic.name LIKE ANY (likes))
          ORDER BY topic.topic_id
          LIMIT max_rows) AS topic
    CROSS JOIN LATERAL (SELECT state.last_number, state.subscribers FROM telesto.topic_states AS state
                        WHERE state.topic_id = topic.topic_id
                        ORDER BY state.version DESC
                        LIMIT 1) AS state
    ORDER BY topic.topic_id;
END
$$;
