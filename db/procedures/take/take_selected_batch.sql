-- Procedure:  take_selected_batch
-- Purpose:    Takes messages for reads that do not just want what is first: of one sender, by age, or the
--             response with a context. Responses together, all others one after the other; otherwise as
--             take_batch.
-- Errors:     none raised
-- Locks:      clients (shared, try), queues' take locks (of one queue: wait; of several: try)
-- Tables:     clients, put_states (read), take_states, receiver_states (insert, delete), messages (delete),
--             deliveries (insert, delete), operations (delete)
CREATE OR REPLACE FUNCTION telesto.take_selected_batch(
    client_ids bigint[],            -- per request: who reads
    sessions bigint[],              -- per request: the session
    numbers bigint[],               -- per request: its number; 0 hands over without a record (delivery "fast")
    queue_ids bigint[],             -- per request: the queue
    max_messages int[],             -- per request: how many messages at most
    max_bytes int[],                -- per request: how many bytes of bodies at most
    confirm_clients bigint[],       -- per confirmed request: the client; only those with a request here count
    confirm_sessions bigint[],      -- per confirmed request: its session
    confirm_numbers bigint[],       -- per confirmed request: its number
    sender_ids bigint[],            -- per request: only messages of this sender; 0 for any
    modes smallint[],               -- per request: 1 by priority, 2 by age
    contexts bigint[],              -- per request: only messages for the reader alone with this context; NULL for all
    middleware_id int DEFAULT NULL  -- through which middleware; NULL for none
)
RETURNS TABLE (
    request int,                  -- the request, counted from 1; one without a row found nothing
    error smallint,               -- NULL with a message; else -1 (not executed, try again), CLIENT_NOT_EXISTING (5),
                                  -- QUEUE_NOT_EXISTING (7), SESSION_FENCED (20) or MESSAGE_TOO_LARGE (26)
    related_id bigint,            -- the message that is too large, with error 26
    message_id bigint,            -- the message
    queue_id bigint,              -- its queue
    sender_id bigint,             -- who put it
    receiver_id bigint,           -- the only client that may read it; 0 for anyone
    priority smallint,            -- 1 to 10
    time_of_arrival timestamptz,  -- when it was put
    attempt int,                  -- how often it has been handed over, this time included
    redelivered boolean,          -- whether it came back after a hand-over
    context bigint,               -- connects request and response; NULL without
    body bytea,                   -- the content
    origin jsonb,                 -- of a dead letter that was moved here: where and how it died; NULL without
    expires_ms bigint             -- how long until it expires, in milliseconds; NULL for never
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    passed bigint[];
    request_errors smallint[];
    queues bigint[];
    granted boolean[];
    verdicts smallint[];
BEGIN
    PERFORM telesto.require_read_committed();
    SELECT fence.passed, fence.errors INTO passed, request_errors
    FROM telesto.fence_requests(client_ids, sessions) AS fence;
    SELECT locked.queues, locked.granted INTO queues, granted
    FROM telesto.lock_takes(queue_ids, request_errors, true) AS locked;
    IF array_position(contexts, NULL) IS NULL AND 1 = ALL (modes) AND 0 = ALL (sender_ids) THEN
        RETURN QUERY
        SELECT taken.*
        FROM telesto.take_responses(client_ids, sessions, numbers, queue_ids, max_messages, max_bytes, contexts,
                                    request_errors, queues, granted, middleware_id) AS taken;
    ELSE
        verdicts := telesto.judge_takes(client_ids, request_errors, queue_ids, queues, granted,
                                        array_fill(true, ARRAY[cardinality(queues)]));
        RETURN QUERY
        SELECT refused.* FROM telesto.refused_takes(verdicts, NULL) AS refused;
        FOR r IN 1..cardinality(numbers) LOOP
            CONTINUE WHEN verdicts[r] IS NOT NULL;
            RETURN QUERY
            SELECT r, taken.*
            FROM telesto.take_selected(client_ids[r], sessions[r], numbers[r], queue_ids[r], max_messages[r],
                                       max_bytes[r], sender_ids[r], modes[r], contexts[r], middleware_id) AS taken;
        END LOOP;
    END IF;

    PERFORM telesto.delete_confirmed(passed, confirm_clients, confirm_sessions, confirm_numbers, true);
END
$$;
