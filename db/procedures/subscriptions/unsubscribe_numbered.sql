-- Procedure:  unsubscribe_numbered
-- Purpose:    Ends a client's subscription of a topic. It is owed nothing more, not even what was put before.
-- Locks:      client (shared, try), the topic, the subscription (wait)
-- Tables:     clients, topics (read), topic_states (insert, delete), subscriptions, positions (delete),
--             operations (insert, delete), deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.unsubscribe_numbered(
    client_id bigint,           -- who asks
    session bigint,             -- the session
    number bigint,              -- the request's number; 0 leaves no record
    confirm_sessions bigint[],  -- per confirmed request: its session
    confirm_numbers bigint[],   -- per confirmed request: its number
    topic text,                 -- the topic's name
    OUT error smallint,         -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING, SESSION_FENCED,
                                -- NOT_SUBSCRIBED or NUMBER_REPEATED
    OUT topic_id bigint         -- the topic; NULL when there is none
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
BEGIN
    error := telesto.fence_client(client_id, session, number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    topic_id := telesto.find_topic(topic);
    error := CASE WHEN topic_id IS NULL OR NOT telesto.remove_subscription(client_id, topic_id) THEN :NOT_SUBSCRIBED END;
    PERFORM telesto.finish_request(client_id, session, number, :UNSUBSCRIBE::smallint, 0, error,
                                   confirm_sessions, confirm_numbers);
END
$$;
