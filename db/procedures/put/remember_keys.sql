-- Procedure:  remember_keys
-- Purpose:    Writes down the keys of messages that were just put, in the generation of keys of now.
-- Locks:      none; the caller holds the queues' put locks
-- Tables:     key_generation (read), message_keys_0, message_keys_1, message_keys_2 (insert, update)
CREATE OR REPLACE FUNCTION telesto.remember_keys(
    queue_ids bigint[],    -- per element: the queue
    keys text[],           -- per element: the key; NULL for a message without one
    message_ids bigint[],  -- per element: the message; 0 or below for one that was not put
    arrived timestamptz    -- when they were put
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    place constant int := (SELECT now_is.generation % 3 FROM telesto.key_generation AS now_is WHERE now_is.single LIMIT 1);
BEGIN
    -- A key is there already when it was put before its queue's window: it stands for the new message then.
    IF place = 0 THEN
        INSERT INTO telesto.message_keys_0 AS remembered (queue_id, key, message_id, put_at)
        SELECT element.queue_id, element.key, element.message_id, arrived
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(keys) AS key, unnest(message_ids) AS message_id)
             AS element
        WHERE element.key IS NOT NULL AND element.message_id > 0
        ON CONFLICT (queue_id, key) DO UPDATE SET message_id = excluded.message_id, put_at = excluded.put_at;
    ELSIF place = 1 THEN
        INSERT INTO telesto.message_keys_1 AS remembered (queue_id, key, message_id, put_at)
        SELECT element.queue_id, element.key, element.message_id, arrived
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(keys) AS key, unnest(message_ids) AS message_id)
             AS element
        WHERE element.key IS NOT NULL AND element.message_id > 0
        ON CONFLICT (queue_id, key) DO UPDATE SET message_id = excluded.message_id, put_at = excluded.put_at;
    ELSE
        INSERT INTO telesto.message_keys_2 AS remembered (queue_id, key, message_id, put_at)
        SELECT element.queue_id, element.key, element.message_id, arrived
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(keys) AS key, unnest(message_ids) AS message_id)
             AS element
        WHERE element.key IS NOT NULL AND element.message_id > 0
        ON CONFLICT (queue_id, key) DO UPDATE SET message_id = excluded.message_id, put_at = excluded.put_at;
    END IF;
END
$$;
