-- Procedure:  put_batch
-- Purpose:    Puts the messages of many requests, of many clients, into many queues in one transaction.
--             A request has one or more elements (a message and a queue). It is executed as a whole or not at
--             all; if it is, each element succeeds or is refused on its own.
-- Errors:     check_violation for a priority or receiver out of range, which the caller should have
--             refused: nothing is done
-- Locks:      clients (shared, try), queues' put locks (of one queue: wait; of several: try)
-- Tables:     clients, queues, take_states (read), operations (insert, delete), messages, delayed_messages,
--             keyed_messages, partition_arrivals (insert), put_states (insert, delete), deliveries (delete), message_keys_0, message_keys_1, message_keys_2
--             (read, insert, update), key_generation (read)
CREATE OR REPLACE FUNCTION telesto.put_batch(
    client_ids bigint[],                 -- per request: who puts
    sessions bigint[],                   -- per request: the session
    numbers bigint[],                    -- per request: its number; 0 leaves no record (delivery "fast")
    method_ids smallint[],               -- per request: the packet, for the record
    element_requests int[],              -- per element: its request, counted from 1
    queue_ids bigint[],                  -- per element: the queue; negative for one that must not take it, because it
                                         -- refused an earlier put that the client has not seen refused yet
    receiver_ids bigint[],               -- per element: the only client that may read it; 0 for anyone
    priorities smallint[],               -- per element: 1 to 10
    contexts bigint[],                   -- per element: connects request and response; NULL without
    bodies bytea[],                      -- per element: the content
    confirm_clients bigint[],            -- per confirmed request: the client; only those with a request here count
    confirm_sessions bigint[],           -- per confirmed request: its session
    confirm_numbers bigint[],            -- per confirmed request: its number
    dedup_keys text[] DEFAULT NULL,      -- per element: the key under which a message is put once within its queue's
                                         -- window; NULL for an element, or for all, without
    delays_ms bigint[] DEFAULT NULL,     -- per element: how long nobody can read it, in milliseconds; NULL for an
                                         -- element, or for all, without
    lives_ms bigint[] DEFAULT NULL,      -- per element: after how long it expires, in milliseconds, unless its queue
                                         -- has it expire sooner; 0 for one whose time is over, which is not stored;
                                         -- NULL for an element, or for all, without
    partition_keys text[] DEFAULT NULL,  -- per element: the key of its partition; NULL for an element, or for all,
                                         -- without
    middleware_id int DEFAULT NULL,      -- through which middleware; NULL for none
    headers jsonb[] DEFAULT NULL,        -- per element: its headers, an object of texts; NULL for an element, or for
                                         -- all, without
    OUT errors smallint[],               -- NULL when all elements are done, else per element: NULL when done, BUSY (not
                                         -- executed, try again), CLIENT_NOT_EXISTING, QUEUE_NOT_EXISTING,
                                         -- SESSION_FENCED, QUEUE_FULL or NUMBER_REPEATED
    OUT message_ids bigint[]             -- per element: the id, rising in the elements' order; 0 where not taken or
                                         -- its time was over, and the negative id of the message that was put first under the element's key
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    passed bigint[];
    request_errors smallint[];
    queues bigint[];
    counts bigint[];
    directed_counts bigint[];
    hidden_counts bigint[];
    put_priorities int[];
    granted boolean[];
    existing boolean[];
    free_counts bigint[];
    queue_lives bigint[];
    histories smallint[];
    expiries timestamptz[];
    -- Whether an element goes elsewhere than into messages; NULL for an element, or for all, that does not.
    hidden_elements boolean[];
    fitting boolean;
    some_over constant boolean := coalesce(0 = ANY (lives_ms), false);
    state_rows tid[];
    touched tid[];
    arrived timestamptz;
    newest_id bigint;
BEGIN
    IF some_over AND dedup_keys IS NOT NULL THEN
        -- What is not stored keeps nothing else from being stored under its key.
        dedup_keys := ARRAY(SELECT CASE WHEN element.life_ms = 0 THEN NULL ELSE element.key END
                            FROM unnest(dedup_keys, lives_ms) WITH ORDINALITY AS element (key, life_ms, i)
                            ORDER BY element.i);
    END IF;
    SELECT fence.passed, fence.errors INTO passed, request_errors
    FROM telesto.fence_requests(client_ids, sessions) AS fence;

    IF delays_ms IS NOT NULL OR partition_keys IS NOT NULL THEN
        SELECT array_agg(CASE WHEN element.delay_ms IS NOT NULL OR element.partition_key IS NOT NULL THEN true END
                         ORDER BY element.i)
        INTO hidden_elements
        FROM (SELECT unnest(delays_ms) AS delay_ms, unnest(partition_keys) AS partition_key,
                     generate_series(1, cardinality(queue_ids)) AS i) AS element;
    END IF;

    SELECT array_agg(wanted.queue_id), array_agg(wanted.n), array_agg(wanted.directed),
           array_agg(wanted.hidden), array_agg(wanted.priorities)
    INTO queues, counts, directed_counts, hidden_counts, put_priorities
    FROM (SELECT element.queue_id, count(*) AS n, count(element.hidden) AS hidden,
                 count(*) FILTER (WHERE element.receiver_id <> 0 AND element.hidden IS NULL) AS directed,
                 bit_or(1 << element.priority) AS priorities
          FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id,
                       unnest(priorities) AS priority, unnest(element_requests) AS request,
                       unnest(hidden_elements) AS hidden) AS element
          WHERE element.queue_id > 0
            AND (request_errors IS NULL OR request_errors[element.request] IS NULL)
          GROUP BY element.queue_id
          ORDER BY element.queue_id) AS wanted;

    -- A slow queue must not hold up the others: only a batch of one queue waits for it.
    IF cardinality(queues) = 1 THEN
        PERFORM pg_advisory_xact_lock(telesto.put_lock_key(queues[1]));
        granted := ARRAY[true];
    ELSE
        SELECT array_agg(pg_try_advisory_xact_lock(telesto.put_lock_key(wanted.queue_id)))
        INTO granted
        FROM unnest(queues) AS wanted (queue_id);
    END IF;

    -- A queue without a state does not exist (any more).
    SELECT array_agg(state.version IS NOT NULL), array_agg(queue.max_messages - (state.total - taken.total)),
           bool_and(state.version IS NOT NULL
                    AND (queue.max_messages IS NULL
                         OR wanted.n <= queue.max_messages - (state.total - taken.total))),
           array_agg(state.ctid), array_agg(queue.expires_ms),
           array_agg(telesto.history_of(queue.history, queue.history_days))
    INTO existing, free_counts, fitting, state_rows, queue_lives, histories
    FROM (SELECT unnest(queues) AS queue_id, unnest(counts) AS n) AS wanted
    LEFT JOIN LATERAL (SELECT state.ctid, state.version, state.total
                       FROM telesto.put_states AS state
                       WHERE state.queue_id = wanted.queue_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true
    LEFT JOIN LATERAL (SELECT queue.max_messages, queue.expires_ms, queue.history, queue.history_days
                       FROM telesto.queues AS queue
                       WHERE queue.queue_id = wanted.queue_id
                       LIMIT 1) AS queue ON true
    LEFT JOIN LATERAL (SELECT taken.total FROM telesto.take_states AS taken
                       WHERE queue.max_messages IS NOT NULL AND taken.queue_id = wanted.queue_id
                       ORDER BY taken.version DESC
                       LIMIT 1) AS taken ON true;

    IF fitting AND request_errors IS NULL AND NOT false = ANY (granted) AND 0 < ALL (queue_ids)
            AND dedup_keys IS NULL THEN
        message_ids := ARRAY(SELECT nextval('telesto.message_ids')
                             FROM generate_series(1, cardinality(element_requests)));
    ELSE
        SELECT judged.errors, judged.message_ids INTO errors, message_ids
        FROM telesto.judge_puts(client_ids, sessions, numbers, request_errors, element_requests, queue_ids,
                                queues, granted, existing, free_counts, dedup_keys) AS judged;
    END IF;

    IF some_over THEN
        message_ids := ARRAY(SELECT CASE WHEN element.life_ms = 0 THEN least(element.message_id, 0)
                                         ELSE element.message_id END
                             FROM unnest(message_ids, lives_ms) WITH ORDINALITY AS element (message_id, life_ms, i)
                             ORDER BY element.i);
    END IF;

    SELECT record.errors, record.message_ids INTO errors, message_ids
    FROM telesto.record_puts(client_ids, sessions, numbers, method_ids, element_requests, errors, message_ids)
         AS record;
    touched := state_rows;
    IF errors IS NOT NULL OR dedup_keys IS NOT NULL OR some_over THEN
        SELECT array_agg(state_rows[taken.q]), array_agg(taken.n), array_agg(taken.directed),
               array_agg(taken.hidden), array_agg(taken.priorities)
        INTO touched, counts, directed_counts, hidden_counts, put_priorities
        FROM (SELECT telesto.sorted_index(element.queue_id, queues) AS q, count(*) AS n, count(element.hidden) AS hidden,
                     count(*) FILTER (WHERE element.receiver_id <> 0 AND element.hidden IS NULL) AS directed,
                     bit_or(1 << element.priority) AS priorities
              FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id,
                           unnest(priorities) AS priority, unnest(message_ids) AS message_id,
                           unnest(hidden_elements) AS hidden) AS element
              WHERE element.message_id > 0
              GROUP BY 1) AS taken;
    END IF;

    arrived := clock_timestamp();
    IF lives_ms IS NOT NULL OR array_remove(queue_lives, NULL) <> '{}' THEN
        expiries := telesto.expiries_of(queue_ids, lives_ms, queues, queue_lives, arrived);
    END IF;
    INSERT INTO telesto.messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                  time_of_arrival, attempt, redelivered, body, headers, expires_at, history,
                                  put_through)
    SELECT element.queue_id, element.receiver_id, element.priority, element.message_id,
           client_ids[element.request], element.context, arrived, 0, false, element.body, element.headers,
           element.expires_at,
           CASE WHEN cardinality(queues) = 1 THEN histories[1]
                ELSE histories[telesto.sorted_index(element.queue_id, queues)] END,
           middleware_id
    FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id,
                 unnest(priorities) AS priority, unnest(message_ids) AS message_id,
                 unnest(element_requests) AS request, unnest(contexts) AS context,
                 unnest(bodies) AS body, unnest(headers) AS headers,
                 unnest(expiries) AS expires_at, unnest(hidden_elements) AS hidden)
         AS element
    WHERE element.message_id > 0 AND element.hidden IS NULL;
    IF delays_ms IS NOT NULL THEN
        INSERT INTO telesto.delayed_messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                              time_of_arrival, due_at, expires_at, attempt, redelivered, body, headers,
                                              history, put_through)
        SELECT element.queue_id, element.receiver_id, element.priority, element.message_id,
               client_ids[element.request], element.context, arrived,
               least(arrived + make_interval(secs => element.delay_ms / 1000.0), element.expires_at),
               element.expires_at, 0, false, element.body, element.headers,
               histories[telesto.sorted_index(element.queue_id, queues)],
               middleware_id
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id,
                     unnest(priorities) AS priority, unnest(message_ids) AS message_id,
                     unnest(element_requests) AS request, unnest(contexts) AS context,
                     unnest(bodies) AS body, unnest(headers) AS headers, unnest(expiries) AS expires_at,
                     unnest(delays_ms) AS delay_ms, unnest(partition_keys) AS partition_key) AS element
        WHERE element.message_id > 0 AND element.delay_ms IS NOT NULL AND element.partition_key IS NULL;
    END IF;
    IF partition_keys IS NOT NULL THEN
        PERFORM telesto.put_keyed(client_ids, element_requests, queue_ids, priorities, contexts, bodies, headers,
                                  message_ids,
                                  partition_keys, delays_ms, expiries, arrived,
                                  ARRAY(SELECT histories[telesto.sorted_index(queue_ids[i], queues)]
                                        FROM generate_series(1, cardinality(queue_ids)) AS i),
                                  middleware_id);
    END IF;
    IF dedup_keys IS NOT NULL THEN
        PERFORM telesto.remember_keys(queue_ids, dedup_keys, message_ids, arrived);
        IF 0 > ANY (message_ids) THEN
            -- A standby may not know yet of what was put before, which the answer takes for done.
            PERFORM pg_logical_emit_message(true, 'telesto', '');
        END IF;
    END IF;

    newest_id := (SELECT max(element.message_id) FROM (SELECT unnest(message_ids) AS message_id) AS element);
    WITH replaced AS (
        DELETE FROM telesto.put_states AS state
        USING (SELECT unnest(touched) AS state_row, unnest(counts) AS n, unnest(directed_counts) AS directed,
                      unnest(hidden_counts) AS hidden, unnest(put_priorities) AS priorities) AS put
        WHERE state.ctid = put.state_row
        RETURNING state.*, put.n, put.directed, put.hidden, put.priorities
    )
    INSERT INTO telesto.put_states (queue_id, version, total, directed_total, hidden_total, last_id, upper)
    SELECT state.queue_id, state.version + 1, state.total + state.n, state.directed_total + state.directed,
           state.hidden_total + state.hidden, newest_id, telesto.next_upper(state.upper, state.priorities, newest_id)
    FROM replaced AS state;

    PERFORM telesto.delete_confirmed(passed, confirm_clients, confirm_sessions, confirm_numbers, false);
END
$$;
