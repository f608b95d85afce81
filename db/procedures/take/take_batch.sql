-- Procedure:  take_batch
-- Purpose:    Takes messages for many reads, of many clients, from many queues in one transaction: the highest
--             priority first, the oldest first among equals, of any sender; what is for anyone and what is for
--             the reader alone form one order. What is taken moves to deliveries until it is confirmed. A read
--             that found nothing may be executed again under its number; that numbers rise otherwise is for the
--             caller to see to.
-- Locks:      clients (shared, try), queues' take locks (of one queue: wait; of several: try)
-- Tables:     clients, put_states (read), take_states, receiver_states (insert, delete), messages (delete),
--             deliveries (insert, delete), operations (delete)
CREATE OR REPLACE FUNCTION telesto.take_batch(
    client_ids bigint[],            -- per request: who reads
    sessions bigint[],              -- per request: the session
    numbers bigint[],               -- per request: its number; 0 hands over without a record (delivery "fast")
    queue_ids bigint[],             -- per request: the queue
    max_messages int[],             -- per request: how many messages at most
    max_bytes int[],                -- per request: how many bytes of bodies at most
    confirm_clients bigint[],       -- per confirmed request: the client; only those with a request here count
    confirm_sessions bigint[],      -- per confirmed request: its session
    confirm_numbers bigint[],       -- per confirmed request: its number
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
    wanted bigint[];
    bases bigint[];
    granted boolean[];
    existing boolean[];
    plain boolean;
    state_rows tid[];
    last_ids bigint[];
    uppers bigint[];
    depths bigint[];
    own_depths bigint[];
    own_depth bigint;
    pick_queues int[];
    pick_ranks bigint[];
    pick_priorities smallint[];
    pick_ids bigint[];
    pick_bytes int[];
    pick_rows tid[];
    pick_requests int[];
    pick_readers bigint[];
    largest int;
    looked_at timestamptz;
    verdicts smallint[];
    related_ids bigint[];
BEGIN
    SELECT fence.passed, fence.errors INTO passed, request_errors
    FROM telesto.fence_requests(client_ids, sessions) AS fence;

    SELECT array_agg(queue.queue_id), array_agg(queue.wanted), array_agg(queue.base)
    INTO queues, wanted, bases
    FROM (SELECT read.queue_id, sum(read.max_messages) AS wanted,
                 sum(sum(read.max_messages)) OVER (ORDER BY read.queue_id) - sum(read.max_messages) AS base
          FROM (SELECT unnest(queue_ids) AS queue_id, unnest(max_messages) AS max_messages,
                       generate_series(1, cardinality(queue_ids)) AS i) AS read
          WHERE request_errors IS NULL OR request_errors[read.i] IS NULL
          GROUP BY read.queue_id
          ORDER BY read.queue_id) AS queue;

    -- A slow queue must not hold up the others: only a batch of one queue waits for it.
    IF cardinality(queues) = 1 THEN
        PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queues[1]));
        granted := ARRAY[true];
    ELSE
        SELECT array_agg(pg_try_advisory_xact_lock(telesto.take_lock_key(queue.queue_id)))
        INTO granted
        FROM unnest(queues) AS queue (queue_id);
    END IF;

    looked_at := clock_timestamp();
    -- All up to the bounds read here is visible to the scans, which are later statements. They look at nothing
    -- above, or they would find a newer message without the older ones beside it.
    SELECT array_agg(taken.ctid), array_agg(taken.version IS NOT NULL), array_agg(put.last_id),
           array_agg(coalesce(put.upper, array_fill(0::bigint, ARRAY[10]))),
           array_agg(put.directed_total - taken.directed_total),
           array_agg(CASE WHEN queue.granted THEN
               least(queue.wanted, (put.total - put.directed_total - put.hidden_total)
                                   - (taken.total - taken.directed_total - taken.hidden_total)) END),
           bool_and(queue.granted AND taken.version IS NOT NULL AND put.directed_total = taken.directed_total)
               AND request_errors IS NULL
    INTO state_rows, existing, last_ids, uppers, own_depths, depths, plain
    FROM (SELECT unnest(queues) AS queue_id, unnest(wanted) AS wanted, unnest(granted) AS granted) AS queue
    LEFT JOIN LATERAL (SELECT taken.ctid, taken.version, taken.total, taken.directed_total, taken.hidden_total
                       FROM telesto.take_states AS taken
                       WHERE taken.queue_id = queue.queue_id
                       ORDER BY taken.version DESC
                       LIMIT 1) AS taken ON true
    LEFT JOIN LATERAL (SELECT put.total, put.directed_total, put.hidden_total, put.last_id, put.upper
                       FROM telesto.put_states AS put
                       WHERE put.queue_id = queue.queue_id
                       ORDER BY put.version DESC
                       LIMIT 1) AS put ON true;

    SELECT array_agg(pick.queue), array_agg(pick.rank), array_agg(pick.priority), array_agg(pick.message_id),
           array_agg(pick.bytes), array_agg(pick.ctid), max(pick.bytes)
    INTO pick_queues, pick_ranks, pick_priorities, pick_ids, pick_bytes, pick_rows, largest
    FROM (SELECT queue.i AS queue, pick.*
          FROM (SELECT unnest(queues) AS queue_id, unnest(depths) AS depth, unnest(state_rows) AS state_row,
                       generate_series(1, cardinality(queues)) AS i) AS queue
          CROSS JOIN LATERAL (SELECT state.lower FROM telesto.take_states AS state
                              WHERE state.ctid = queue.state_row
                              LIMIT 1) AS state
          CROSS JOIN LATERAL (SELECT row_number() OVER () - 1 AS rank, message.*
                              FROM generate_series(10, 1, -1) AS level (priority)
                              CROSS JOIN LATERAL (
                                  SELECT message.priority, message.message_id, message.ctid,
                                         octet_length(message.body)
                                         + coalesce(telesto.headers_bytes(message.headers), 0) AS bytes
                                  FROM telesto.messages AS message
                                  WHERE message.queue_id = queue.queue_id
                                    AND message.receiver_id = 0
                                    AND message.priority = level.priority
                                    AND message.message_id >= state.lower[level.priority]
                                    AND message.message_id <= uppers[queue.i][level.priority]
                                    AND (message.expires_at IS NULL OR message.expires_at > looked_at)
                                  ORDER BY message.message_id
                                  LIMIT queue.depth) AS message
                              WHERE state.lower[level.priority] <= uppers[queue.i][level.priority]
                              LIMIT queue.depth) AS pick
          WHERE queue.depth > 0) AS pick;

    IF plain AND pick_ids IS NOT NULL THEN
        pick_requests := telesto.assign_windows(queue_ids, max_messages, max_bytes, bases, largest,
                                                pick_queues, pick_ranks);
    END IF;
    IF NOT plain OR (pick_ids IS NOT NULL AND pick_requests IS NULL) THEN
        SELECT plan.verdicts, plan.related_ids, plan.pick_requests, plan.pick_queues, plan.pick_priorities,
               plan.pick_ids, plan.pick_rows, plan.pick_readers
        INTO verdicts, related_ids, pick_requests, pick_queues, pick_priorities,
             pick_ids, pick_rows, pick_readers
        FROM telesto.plan_takes(client_ids, queue_ids, max_messages, max_bytes, request_errors, queues, granted,
                                existing, own_depths, uppers, NULL, pick_queues, pick_priorities, pick_ids,
                                pick_bytes, pick_rows) AS plan;
        RETURN QUERY
        SELECT refused.* FROM telesto.refused_takes(verdicts, related_ids) AS refused;
    END IF;

    IF pick_ids IS NOT NULL THEN
        IF max_messages = array_fill(1, ARRAY[cardinality(max_messages)]) THEN
            RETURN QUERY
            SELECT * FROM telesto.hand_over(pick_rows, pick_requests, client_ids, sessions, numbers, middleware_id);
        ELSE
            RETURN QUERY
            SELECT *
            FROM telesto.hand_over(pick_rows, pick_requests, client_ids, sessions, numbers, middleware_id) AS taken
            ORDER BY taken.request, taken.priority DESC, taken.message_id;
        END IF;

        PERFORM telesto.advance_takes(state_rows, last_ids, pick_queues, pick_readers, pick_priorities, pick_ids);
        IF pick_readers IS NOT NULL THEN
            PERFORM telesto.advance_receivers(queues, last_ids, pick_queues, pick_readers, pick_priorities,
                                              pick_ids);
        END IF;
    END IF;

    PERFORM telesto.delete_confirmed(passed, confirm_clients, confirm_sessions, confirm_numbers, true);
END
$$;
