-- Procedure:  put
-- Purpose:    Puts a message from SQL as put_message does, into a queue by its name, with a body of any type: bytea as it
--             is, text as UTF-8, json, jsonb and everything else, such as a row, as JSON. Its header content-type says
--             which, unless it is given.
-- Returns:
--   bigint                  the staged_id, as of put_message
-- Errors:     TL007 QUEUE_NOT_EXISTING, TL012 INVALID_PARAMETER, TL013 CLIENT_MODE_PERMISSION_VIOLATION, TL026
--             MESSAGE_TOO_LARGE
-- Tables:     clients, installation, queues (read), staged_messages (insert)
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
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    type constant regtype := pg_typeof(body);
    content bytea;
    content_type text;
BEGIN
    IF type = 'bytea'::regtype THEN
        content := body;
    ELSIF type IN ('varchar'::regtype, 'bpchar'::regtype, 'name'::regtype) THEN
        content := convert_to(body::text, 'UTF8');
        content_type := 'text/plain; charset=utf-8';
    ELSE
        content := convert_to(CASE WHEN type IN ('json'::regtype, 'jsonb'::regtype) THEN body::text
                                   ELSE to_json(body)::text END, 'UTF8');
        content_type := 'application/json';
    END IF;
    PERFORM telesto.check_headers(headers);
    RETURN telesto.put_message(
        telesto.declare_client(sender), telesto.get_queue(queue), content, priority, receiver_id, context, dedup_key, delay,
        expires, partition_key,
        CASE WHEN content_type IS NULL THEN headers
             ELSE jsonb_build_object('content-type', content_type) || coalesce(headers, '{}') END);
END
$$;

-- A quoted string without a type has none of its own, so PostgreSQL takes it for text.
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
LANGUAGE sql SECURITY DEFINER
AS $$
SELECT telesto.put(queue, convert_to(body, 'UTF8'), priority,
                   CASE WHEN coalesce(jsonb_typeof(headers), 'object') = 'object'
                        THEN '{"content-type": "text/plain; charset=utf-8"}'::jsonb || coalesce(headers, '{}')
                        ELSE headers END, delay, expires,
                   dedup_key, partition_key, receiver_id, context, sender)
$$;
