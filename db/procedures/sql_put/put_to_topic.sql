-- Procedure:  put_to_topic
-- Purpose:    Puts a message to a topic from SQL, as a part of the caller's transaction. It is only written down;
--             a middleware places it soon after the commit, and then it goes to everybody who subscribes. The body is
--             of any type, as that of put.
-- Returns:
--   bigint                  the staged_id, by which it can be found in staged_topic_messages until it is placed
-- Errors:     TL032 PERMISSION_DENIED,
--             TL012 INVALID_PARAMETER, TL013 CLIENT_MODE_PERMISSION_VIOLATION, TL026 MESSAGE_TOO_LARGE
-- Tables:     clients, installation (read), staged_topic_messages (insert)
CREATE OR REPLACE FUNCTION telesto.put_to_topic(
    topic text,                       -- the topic's name, 1 to 1,024 characters that can be seen; created on first use
    body bytea,                       -- the content
    headers jsonb DEFAULT NULL,       -- its headers, an object of up to 64 texts; NULL without
    sender text DEFAULT session_user  -- the client who puts, by its name: it is registered if need be; that of the
                                      -- database user unless given
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    caller constant telesto.users := telesto.sql_caller();
BEGIN
    RETURN telesto.stage_topic_message(caller, telesto.client_of(caller, sender), topic, body, headers);
END
$$;

CREATE OR REPLACE FUNCTION telesto.put_to_topic(
    topic text,                       -- the topic's name, 1 to 1,024 characters that can be seen; created on first use
    body anyelement,                  -- the content
    headers jsonb DEFAULT NULL,       -- its headers, an object of up to 64 texts; NULL without
    sender text DEFAULT session_user  -- the client who puts, by its name: it is registered if need be; that of the
                                      -- database user unless given
)
RETURNS bigint
LANGUAGE sql SECURITY INVOKER
AS $$
SELECT telesto.put_to_topic(topic, encoded.content, encoded.all_headers, sender)
FROM telesto.encode_body(body, headers) AS encoded
$$;

-- See put.
CREATE OR REPLACE FUNCTION telesto.put_to_topic(
    topic text,                       -- the topic's name, 1 to 1,024 characters that can be seen; created on first use
    body text,                        -- the content
    headers jsonb DEFAULT NULL,       -- its headers, an object of up to 64 texts; NULL without
    sender text DEFAULT session_user  -- the client who puts, by its name: it is registered if need be; that of the
                                      -- database user unless given
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    caller constant telesto.users := telesto.sql_caller();
    encoded record;
BEGIN
    encoded := telesto.encode_body(body, headers);
    RETURN telesto.stage_topic_message(caller, telesto.client_of(caller, sender), topic, encoded.content,
                                       encoded.all_headers);
END
$$;
