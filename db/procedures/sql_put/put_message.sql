-- Procedure:  put_message
-- Purpose:    Puts a message from SQL, as a part of the caller's transaction: it counts when that commits, and
--             a middleware places it in the queue within moments of the commit. Until then, and while the
--             queue is full, it waits in staged_messages. Messages of one transaction keep their order.
-- Returns:
--   bigint                  the staged_id, by which it can be found in staged_messages until it is placed;
--                           the message gets its own id there
-- Errors:     TL032 PERMISSION_DENIED,
--             TL005 CLIENT_NOT_EXISTING, TL007 QUEUE_NOT_EXISTING, TL012 INVALID_PARAMETER, TL013
--             CLIENT_MODE_PERMISSION_VIOLATION, TL026 MESSAGE_TOO_LARGE
-- Tables:     clients, installation, queues (read), staged_messages (insert)
CREATE OR REPLACE FUNCTION telesto.put_message(
    sender_id bigint,                -- the client who puts
    queue_id bigint,                 -- the queue
    body bytea,                      -- the content
    priority int DEFAULT 5,          -- 1 lowest to 10 highest
    receiver_id bigint DEFAULT 0,    -- the only client that may read it; 0 for anyone; need not exist yet
    context bigint DEFAULT NULL,     -- connects request and response; NULL without
    dedup_key text DEFAULT NULL,     -- 1 to 255 characters: under one key a queue takes one message within its window,
                                     -- see the setting dedup_window; a repeated one is dropped when it would be
                                     -- placed
    delay interval DEFAULT NULL,     -- how long nobody can read it once it is placed; NULL for not at all
    expires interval DEFAULT NULL,   -- after how long it expires, counted from when it is placed; NULL for as long as
                                     -- its queue says
    partition_key text DEFAULT NULL, -- 1 to 255 characters: only consumers get it, in the order of its partition, and
                                     -- not together with a receiver; NULL without
    headers jsonb DEFAULT NULL       -- its headers, an object of up to 64 texts; NULL without
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    staged bigint;
BEGIN
    SELECT stage.staged_id INTO staged
    FROM telesto.stage_message(telesto.sql_caller(), sender_id, ARRAY[queue_id], body, priority, receiver_id, context, dedup_key,
                           telesto.in_milliseconds('delay', delay, 0, 315360000000),
                           telesto.in_milliseconds('expires', expires, 1, 315360000000), partition_key, headers) AS stage;
    IF staged IS NULL THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %s', coalesce(queue_id::text, 'NULL')));
    END IF;
    RETURN staged;
END
$$;
