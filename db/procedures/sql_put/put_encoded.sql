-- Procedure:  put_encoded
-- Purpose:    What put does once it has the body in bytes. The caller's user is looked up once.
-- Returns:
--   bigint                  the staged_id, as of put_message
-- Errors:     TL006 CLIENT_NAME_NOT_UNIQUE, TL007 QUEUE_NOT_EXISTING, TL012 INVALID_PARAMETER, TL013
--             CLIENT_MODE_PERMISSION_VIOLATION, TL023 OVERLOADED, TL026 MESSAGE_TOO_LARGE, TL032 PERMISSION_DENIED
-- Tables:     users, sql_users, clients, installation, queues (read), staged_messages (insert)
CREATE OR REPLACE FUNCTION telesto.put_encoded(
    queue text,          -- the queue's name
    body bytea,          -- the content
    priority int,        -- as of put, and so are the others
    headers jsonb,       -- its headers
    delay interval,      -- how long nobody can read it
    expires interval,    -- after how long it expires
    dedup_key text,      -- under one key a queue takes one message within its window
    partition_key text,  -- its partition
    receiver_id bigint,  -- the only client that may read it
    context bigint,      -- connects request and response
    sender text          -- the client who puts
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    caller constant telesto.users := telesto.sql_caller();
    sender_id constant bigint := telesto.client_of(caller, sender);
    queue_id constant bigint := telesto.queue_of(caller, queue);
    staged bigint;
BEGIN
    SELECT stage.staged_id INTO staged
    FROM telesto.stage_message(caller, sender_id, ARRAY[queue_id], body, priority, receiver_id, context, dedup_key,
                               telesto.in_milliseconds('delay', delay, 0, 315360000000),
                               telesto.in_milliseconds('expires', expires, 1, 315360000000), partition_key, headers) AS stage;
    IF staged IS NULL THEN
        -- It was deleted meanwhile.
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %L', queue));
    END IF;
    RETURN staged;
END
$$;
