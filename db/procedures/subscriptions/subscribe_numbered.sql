-- Procedure:  subscribe_numbered
-- Purpose:    Subscribes a client to a topic, which is created on its first use. It is owed every message whose
--             number is drawn after this. A subscription that was dropped for its lag is replaced.
-- Errors:     check_violation for a name or limit out of range
-- Locks:      client (shared, try), the topic (wait)
-- Tables:     clients (read), topics (read, insert), topic_states (insert, delete), subscriptions (insert, delete),
--             positions (insert, delete), operations (insert, delete), deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.subscribe_numbered(
    client_id bigint,            -- who asks
    session bigint,              -- the session
    number bigint,               -- the request's number; 0 leaves no record
    confirm_sessions bigint[],   -- per confirmed request: its session
    confirm_numbers bigint[],    -- per confirmed request: its number
    topic text,                  -- the topic's name, 1 to 1,024 characters
    max_behind bigint,           -- behind by more messages it is lagging; NULL for no such limit
    max_age_ms bigint,           -- when its next message is older, in milliseconds, it is lagging; NULL for none
    drop_lagging boolean,        -- whether it is dropped then
    OUT error smallint,          -- NULL, BUSY (a takeover is under way, or the topic was deleted meanwhile: try again),
                                 -- CLIENT_NOT_EXISTING, SESSION_FENCED, ALREADY_SUBSCRIBED or NUMBER_REPEATED
    OUT subscription_id bigint,  -- the new subscription; with ALREADY_SUBSCRIBED the one that there is
    OUT topic_id bigint          -- the topic
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
BEGIN
    error := telesto.fence_client(client_id, session, number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    topic_id := (telesto.get_topics(ARRAY[topic], ARRAY[client_id], ARRAY[1]))[1];
    SELECT added.subscription_id, CASE WHEN added.created IS NULL THEN :BUSY WHEN NOT added.created THEN :ALREADY_SUBSCRIBED END
    INTO subscription_id, error
    FROM telesto.add_subscription(client_id, topic_id, max_behind, max_age_ms, drop_lagging) AS added;
    IF error = :BUSY THEN
        RETURN;
    END IF;
    PERFORM telesto.finish_request(client_id, session, number, :SUBSCRIBE::smallint, subscription_id, error,
                                   confirm_sessions, confirm_numbers);
END
$$;
