-- Procedure:  count_subscribers
-- Purpose:    Writes the next state of a topic with more or fewer subscribers.
-- Returns:
--   bigint                  the topic's last number
-- Locks:      none; the caller holds the topic's
-- Tables:     topic_states (read, insert, delete)
CREATE OR REPLACE FUNCTION telesto.count_subscribers(
    topic_id bigint,  -- the topic
    change bigint     -- how many more, negative for fewer
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    state telesto.topic_states;
BEGIN
    SELECT newest.* INTO state
    FROM telesto.topic_states AS newest
    WHERE newest.topic_id = count_subscribers.topic_id
    ORDER BY newest.version DESC
    LIMIT 1;
    INSERT INTO telesto.topic_states (topic_id, version, last_number, subscribers)
    VALUES (state.topic_id, state.version + 1, state.last_number, state.subscribers + change);
    DELETE FROM telesto.topic_states AS old
    WHERE old.topic_id = state.topic_id AND old.version = state.version;
    RETURN state.last_number;
END
$$;
