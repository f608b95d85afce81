-- Procedure:  delete_topic_numbered
-- Purpose:    Deletes a topic without subscriptions. Its name is free at once.
-- Locks:      client (shared, try), the topic (wait)
-- Tables:     clients, subscriptions (read), topics, topic_states, publisher_states (delete), deleted_topics (insert),
--             operations (insert, delete), deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.delete_topic_numbered(
    client_id bigint,           -- who asks
    session bigint,             -- the session
    number bigint,              -- the request's number; 0 leaves no record
    confirm_sessions bigint[],  -- per confirmed request: its session
    confirm_numbers bigint[],   -- per confirmed request: its number
    topic text,                 -- the topic's name
    OUT error smallint          -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING, SESSION_FENCED,
                                -- TOPIC_NOT_EXISTING, NUMBER_REPEATED or TOPIC_IN_USE
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    topic_id bigint;
    removed boolean;
BEGIN
    error := telesto.fence_client(client_id, session, number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    topic_id := telesto.find_topic(topic);
    IF topic_id IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(telesto.topic_lock_key(topic_id));
        removed := telesto.remove_topic(topic_id);
    END IF;
    error := CASE WHEN removed IS NULL THEN :TOPIC_NOT_EXISTING WHEN NOT removed THEN :TOPIC_IN_USE END;
    PERFORM telesto.finish_request(client_id, session, number, :DELETE_TOPIC::smallint, 0, error,
                                   confirm_sessions, confirm_numbers);
END
$$;
