-- Procedure:  put
-- Purpose:    Puts a message from SQL as put_message does, into a queue by its name, with a body of any type: bytea as it
--             is, text as UTF-8, json, jsonb and everything else, such as a row, as JSON. Its header content-type says
--             which, unless it is given. That of any type has the caller's rights only: to_json runs what the caller has
--             defined for a type of its own.
-- Returns:
--   bigint                  the staged_id, as of put_message
-- Errors:     TL032 PERMISSION_DENIED,
--             TL007 QUEUE_NOT_EXISTING, TL012 INVALID_PARAMETER, TL013 CLIENT_MODE_PERMISSION_VIOLATION, TL026
--             MESSAGE_TOO_LARGE
-- Tables:     clients, installation, queues (read), staged_messages (insert)
CREATE OR REPLACE FUNCTION telesto.put(
    queue text,                         -- the queue's name
    body bytea,                         -- the content
    priority int DEFAULT 5,             -- 1 lowest to 10 highest
    headers jsonb DEFAULT NULL,         -- its headers, an object of up to 64 texts; NULL without
    delay interval DEFAULT NULL,        -- how long nobody can read it once it is placed; NULL for not at all
    expires interval DEFAULT NULL,      -- after how long it expires, counted from when it is placed; NULL for as long as
                                        -- its queue says
    dedup_key text DEFAULT NULL,        -- 1 to 255 characters: under one key a queue takes one message within its window
    partition_key text DEFAULT NULL,    -- 1 to 255 characters: only consumers get it, in the order of its partition
    receiver_id bigint DEFAULT 0,       -- the only client that may read it; 0 for anyone; need not exist yet
    context bigint DEFAULT NULL,        -- connects request and response; NULL without
    sender text DEFAULT session_user    -- the client who puts, by its name: it is registered if need be; that of the
                                        -- database user unless given
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
    RETURN telesto.put_encoded(queue, body, priority, headers, delay, expires, dedup_key, partition_key, receiver_id,
                               context, sender);
END
$$;

CREATE OR REPLACE FUNCTION telesto.put(
    queue text,                         -- the queue's name
    body anyelement,                    -- the content
    priority int DEFAULT 5,             -- 1 lowest to 10 highest
    headers jsonb DEFAULT NULL,         -- its headers, an object of up to 64 texts; NULL without
    delay interval DEFAULT NULL,        -- how long nobody can read it once it is placed; NULL for not at all
    expires interval DEFAULT NULL,      -- after how long it expires, counted from when it is placed; NULL for as long as
                                        -- its queue says
    dedup_key text DEFAULT NULL,        -- 1 to 255 characters: under one key a queue takes one message within its window
    partition_key text DEFAULT NULL,    -- 1 to 255 characters: only consumers get it, in the order of its partition
    receiver_id bigint DEFAULT 0,       -- the only client that may read it; 0 for anyone; need not exist yet
    context bigint DEFAULT NULL,        -- connects request and response; NULL without
    sender text DEFAULT session_user    -- the client who puts, by its name: it is registered if need be; that of the
                                        -- database user unless given
)
RETURNS bigint
LANGUAGE sql SECURITY INVOKER
AS $$
SELECT telesto.put(queue, encoded.content, priority, encoded.all_headers, delay, expires, dedup_key, partition_key,
                   receiver_id, context, sender)
FROM telesto.encode_body(body, headers) AS encoded
$$;

-- A quoted string without a type has none of its own, so PostgreSQL takes it for text, but not for any type.
CREATE OR REPLACE FUNCTION telesto.put(
    queue text,                         -- the queue's name
    body text,                          -- the content
    priority int DEFAULT 5,             -- 1 lowest to 10 highest
    headers jsonb DEFAULT NULL,         -- its headers, an object of up to 64 texts; NULL without
    delay interval DEFAULT NULL,        -- how long nobody can read it once it is placed; NULL for not at all
    expires interval DEFAULT NULL,      -- after how long it expires, counted from when it is placed; NULL for as long as
                                        -- its queue says
    dedup_key text DEFAULT NULL,        -- 1 to 255 characters: under one key a queue takes one message within its window
    partition_key text DEFAULT NULL,    -- 1 to 255 characters: only consumers get it, in the order of its partition
    receiver_id bigint DEFAULT 0,       -- the only client that may read it; 0 for anyone; need not exist yet
    context bigint DEFAULT NULL,        -- connects request and response; NULL without
    sender text DEFAULT session_user    -- the client who puts, by its name: it is registered if need be; that of the
                                        -- database user unless given
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    encoded record;
BEGIN
    encoded := telesto.encode_body(body, headers);
    RETURN telesto.put_encoded(queue, encoded.content, priority, encoded.all_headers, delay, expires, dedup_key,
                               partition_key, receiver_id, context, sender);
END
$$;
