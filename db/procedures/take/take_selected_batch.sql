-- Procedure:  take_selected_batch
-- Purpose:    Takes messages for reads that do not just want what is first: of one sender, by age, or the
--             response with a context. Responses together, all others one after the other; otherwise as
--             take_batch.
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
RETURNS SETOF telesto.taken_message
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
            SELECT taken.*
            FROM telesto.take_selected(r, client_ids[r], sessions[r], numbers[r], queue_ids[r], max_messages[r],
                                       max_bytes[r], sender_ids[r], modes[r], contexts[r], middleware_id) AS taken;
        END LOOP;
    END IF;

    PERFORM telesto.delete_confirmed(passed, confirm_clients, confirm_sessions, confirm_numbers, true);
END
$$;
