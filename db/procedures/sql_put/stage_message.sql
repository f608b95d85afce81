-- Procedure:  stage_message
-- Purpose:    Writes a message down for each of several queues, to be placed after the caller's transaction
--             has committed. Takes no lock of a queue or client, so that the transaction may stay open long.
-- Errors:     TL005 CLIENT_NOT_EXISTING, TL012 INVALID_PARAMETER, TL013
--             CLIENT_MODE_PERMISSION_VIOLATION, TL026 MESSAGE_TOO_LARGE
-- Tables:     clients, installation, queues (read), staged_messages (insert)
CREATE OR REPLACE FUNCTION telesto.stage_message(
    caller telesto.users, -- see sql_caller
    sender_id bigint,    -- the client who puts
    queue_ids bigint[],  -- the queues; those that do not exist are passed over
    body bytea,          -- the content
    priority int,        -- 1 lowest to 10 highest
    receiver_id bigint,  -- the only client that may read it; 0 or NULL for anyone; need not exist yet
    context bigint,      -- connects request and response; NULL without
    dedup_key text,      -- the key under which it is put once within the queue's window; NULL without
    delay_ms bigint,     -- how long nobody can read it, see in_milliseconds; NULL for not at all
    expires_ms bigint,   -- after how long it expires, see in_milliseconds; NULL for as long as its queue says
    partition_key text,  -- 1 to 255 characters: only consumers get it, in the order of its partition, and not together
                         -- with a receiver; NULL without
    headers jsonb        -- its headers, an object of texts; NULL without
)
RETURNS TABLE (
    queue_id bigint,  -- a queue that will take the message
    staged_id bigint  -- the row in staged_messages, rising in the order of the calls
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- No reader gets a message that no frame holds, and what stands behind it gets no turn.
    longest constant int := (SELECT installation.max_body_bytes FROM telesto.installation AS installation);
    denied text;
    bytes bigint;
    staged_rows bigint;
BEGIN
    PERFORM telesto.require_client(caller, sender_id, true);
    IF caller.max_stored_messages IS NOT NULL OR caller.max_stored_bytes IS NOT NULL THEN
        PERFORM telesto.require_space(caller);
    END IF;
    PERFORM telesto.check_headers(headers);
    bytes := octet_length(body) + coalesce(telesto.headers_bytes(nullif(headers, '{}')), 0);
    IF body IS NULL THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'a message needs a body');
    ELSIF bytes > longest THEN
        PERFORM telesto.raise_error(:MESSAGE_TOO_LARGE,
                                    format('%s bytes of body and headers are too long: %s are allowed',
                                               bytes, longest));
    ELSIF priority IS NULL OR priority NOT BETWEEN 1 AND 10 THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('priority %s is not between 1 and 10', priority));
    ELSIF receiver_id < 0 THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('receiver %s is negative', receiver_id));
    ELSIF char_length(dedup_key) NOT BETWEEN 1 AND 255 THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('dedup_key has %s characters, but 1 to 255 are allowed',
                                               char_length(dedup_key)));
    ELSIF char_length(partition_key) NOT BETWEEN 1 AND 255 THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('partition_key has %s characters, but 1 to 255 are allowed',
                                               char_length(partition_key)));
    ELSIF concat(dedup_key, partition_key) ~ '[\u0001-\u001F\u007F-\u009F]' THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'a key has no control characters');
    ELSIF partition_key IS NOT NULL AND receiver_id > 0 THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'a message has a receiver or a partition key, not both');
    END IF;
    RETURN QUERY
    INSERT INTO telesto.staged_messages AS staged (queue_id, receiver_id, sender_id, context, priority, body,
                                                     headers, dedup_key, delay_ms, expires_ms, partition_key)
    SELECT queue.queue_id, coalesce(stage_message.receiver_id, 0), stage_message.sender_id,
           stage_message.context, stage_message.priority, stage_message.body, nullif(stage_message.headers, '{}'),
           stage_message.dedup_key,
           nullif(stage_message.delay_ms, 0), stage_message.expires_ms, stage_message.partition_key
    FROM telesto.queues AS queue
    WHERE queue.queue_id = ANY (queue_ids)
      AND (caller.user_id IS NULL OR telesto.name_matches(caller.put, queue.name))
    RETURNING staged.queue_id, staged.staged_id;
    IF caller.user_id IS NULL THEN
        RETURN;
    END IF;
    GET DIAGNOSTICS staged_rows = ROW_COUNT;
    IF staged_rows < cardinality(queue_ids) THEN
        SELECT queue.name INTO denied
        FROM telesto.queues AS queue
        WHERE queue.queue_id = ANY (queue_ids) AND NOT telesto.name_matches(caller.put, queue.name)
          AND (caller.monitor OR telesto.name_matches(telesto.seen_patterns(caller), queue.name))
        LIMIT 1;
        IF FOUND THEN
            PERFORM telesto.require_right(caller, 'put', denied);
        END IF;
    END IF;
END
$$;
