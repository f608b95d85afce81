-- Procedure:  put_messages
-- Purpose:    Puts one message into several queues from SQL, under the rules of put_message.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL005 CLIENT_NOT_EXISTING, TL012 INVALID_PARAMETER, TL013
--             CLIENT_MODE_PERMISSION_VIOLATION, TL026 MESSAGE_TOO_LARGE
-- Tables:     clients, installation, queues (read), staged_messages (insert)
CREATE OR REPLACE FUNCTION telesto.put_messages(
    sender_id bigint,                -- the client who puts
    queue_ids bigint[],              -- the queues; one that is named twice takes it once
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
RETURNS TABLE (
    queue_id bigint,  -- a queue that takes the message; one that does not exist is missing here
    staged_id bigint  -- its row in staged_messages
)
LANGUAGE sql SECURITY DEFINER
AS $$
SELECT stage.queue_id, stage.staged_id
FROM telesto.stage_message(telesto.sql_caller(), sender_id, queue_ids, body, priority, receiver_id, context, dedup_key,
                           telesto.in_milliseconds('delay', delay, 0, 315360000000),
                           telesto.in_milliseconds('expires', expires, 1, 315360000000), partition_key, headers) AS stage
$$;
