-- Procedure:  stage_topic_message
-- Purpose:    Writes a message to a topic down, to be placed after the caller's transaction has committed. Takes no
--             lock of a topic or client, so that the transaction may stay open long.
-- Returns:
--   bigint                  the staged_id, by which it can be found in staged_topic_messages until it is placed
-- Errors:     TL005 CLIENT_NOT_EXISTING, TL012 INVALID_PARAMETER, TL013
--             CLIENT_MODE_PERMISSION_VIOLATION, TL026 MESSAGE_TOO_LARGE
-- Tables:     clients, installation (read), staged_topic_messages (insert)
CREATE OR REPLACE FUNCTION telesto.stage_topic_message(
    caller telesto.users,  -- see sql_caller
    sender_id bigint,      -- the client who puts
    topic text,            -- the topic's name, 1 to 1,024 characters that can be seen; created on first use
    body bytea,            -- the content
    headers jsonb          -- its headers, an object of up to 64 texts; NULL without
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    -- No subscriber gets a message that no frame holds, nor what stands behind it.
    longest constant int := (SELECT installation.max_body_bytes FROM telesto.installation AS installation);
    bytes bigint;
    staged bigint;
BEGIN
    PERFORM telesto.require_client(caller, sender_id, true);
    PERFORM telesto.require_right(caller, 'put', topic);
    IF caller.max_stored_messages IS NOT NULL OR caller.max_stored_bytes IS NOT NULL THEN
        PERFORM telesto.require_space(caller);
    END IF;
    PERFORM telesto.check_headers(headers);
    bytes := octet_length(body) + coalesce(telesto.headers_bytes(nullif(headers, '{}')), 0);
    IF body IS NULL THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'a message needs a body');
    ELSIF bytes > longest THEN
        PERFORM telesto.raise_error(:MESSAGE_TOO_LARGE, format('%s bytes of body and headers are too long: %s are allowed',
                                               bytes, longest));
    ELSIF topic IS NULL OR char_length(topic) NOT BETWEEN 1 AND 1024 THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'a topic''s name has 1 to 1024 characters');
    END IF;
    PERFORM telesto.refuse_invisible(topic);
    IF caller.max_topics IS NOT NULL AND telesto.find_topic(topic) IS NULL THEN
        PERFORM telesto.require_quota(caller.user_id, 'topics');
    END IF;
    INSERT INTO telesto.staged_topic_messages AS row (sender_id, topic, body, headers)
    VALUES (sender_id, topic, body, nullif(headers, '{}'))
    RETURNING row.staged_id INTO staged;
    RETURN staged;
END
$$;
