-- Procedure:  return_leases
-- Purpose:    Puts leased messages back to their place, under their ids. One that the application was given, or may have
--             been, is marked redelivered; one that only waited at its consumer comes back as if it had never been given.
--             One that has failed as often as its queue allows, or is rejected, goes to the dead letters. They are exempt from the queue's bound;
--             what belongs to a queue that is gone is dropped. With a message of a partition come back those leased
--             after it, uncounted. The history keeps that a consumer had them. A message that failed is noted with the
--             consumer that it failed with, and how long it is kept for others; one of a partition after each third failure
--             and before its last attempt, since its partition moves then.
-- Locks:      none; the caller holds the queues'. Leases that another transaction ends are left to it: until then
--             nothing of their partitions is leased
-- Tables:     leases (delete), queues, consumers (read), messages, keyed_messages, delayed_messages, dead_letters
--             (insert), take_states, receiver_states, partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.return_leases(
    queues bigint[],                  -- the queues whose take locks are held, sorted
    lease_rows tid[],                 -- where the leases are; the caller has locked these rows
    counted boolean,                  -- whether this counts as a failed attempt of what was begun
    begun_ids bigint[],               -- messages that were begun, among others; NULL when this is not known: then all
                                      -- are marked, and only those count of which the database knows it
    reason text,                      -- why, for the dead letters: with 'failed' all of lease_rows were begun. NULL:
                                      -- no application was given them, so the history does not keep it
    delay_ms bigint,                  -- how long they wait before they can be read again, in milliseconds; NULL for as
                                      -- long as their queue's backoff says
    why text DEFAULT NULL,            -- what the reason tells besides
    rejected boolean DEFAULT false,   -- what failed is dead at once
    OUT queue_ids bigint[],           -- per message that can be read again: its queue
    OUT receiver_ids bigint[],        -- per message that can be read again: for whom; 0 for anyone
    OUT follower_consumers bigint[],  -- per message that came back with another: the consumer that had it
    OUT follower_leases bigint[],     -- per message that came back with another: its lease
    OUT follower_ids bigint[]         -- per message that came back with another: its id
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- How long a failed message is kept for other consumers, and before its last attempt. deal_to_others
    -- ignores longer times.
    kept_for constant interval := '2 seconds';
    kept_last constant interval := '30 seconds';
    failures_per_owner constant int := 3;
    shown_reason constant text := CASE WHEN rejected THEN 'rejected' ELSE reason END || coalesce(': ' || why, '');
    moment constant timestamptz := clock_timestamp();
    today constant date := moment AT TIME ZONE 'UTC';
    days constant date[] := telesto.known_history_days();
    state_rows tid[];
    attempts_max int[];
    backoffs_ms int[];
    backoffs_max_ms int[];
    priorities smallint[];
    message_ids bigint[];
    hidden boolean[];
    quiet boolean[];
    follower_rows tid[];
    key_queues bigint[];
    key_senders bigint[];
    keys text[];
    key_ids bigint[];
BEGIN
    IF lease_rows = '{}' THEN
        RETURN;
    END IF;
    SELECT array_agg(follower.follower_row), array_agg(follower.consumer_id), array_agg(follower.lease_id),
           array_agg(follower.message_id)
    INTO follower_rows, follower_consumers, follower_leases, follower_ids
    FROM (SELECT lease.consumer_id, lease.lease_id, min(lease.message_id) AS first_id,
                 array_agg(lease.message_id) AS given_ids
          -- By place alone: the order that the groups need must not be had from the index.
          FROM (SELECT lease.* FROM telesto.leases AS lease
                WHERE lease.ctid = ANY (lease_rows) AND lease.partition_key IS NOT NULL
                OFFSET 0) AS lease
          GROUP BY lease.consumer_id, lease.lease_id) AS ended
    CROSS JOIN LATERAL (SELECT lease.ctid AS follower_row, lease.consumer_id, lease.lease_id, lease.message_id
                        FROM telesto.leases AS lease
                        WHERE lease.consumer_id = ended.consumer_id AND lease.lease_id = ended.lease_id
                          AND lease.message_id > ended.first_id AND NOT lease.message_id = ANY (ended.given_ids)
                        FOR UPDATE SKIP LOCKED) AS follower;

    -- A queue without a state does not exist (any more).
    SELECT array_agg(state.ctid), array_agg(queue.max_attempts), array_agg(queue.backoff_ms),
           array_agg(queue.backoff_max_ms)
    INTO state_rows, attempts_max, backoffs_ms, backoffs_max_ms
    FROM (SELECT unnest(queues) AS queue_id) AS wanted
    LEFT JOIN LATERAL (SELECT state.ctid FROM telesto.take_states AS state
                       WHERE state.queue_id = wanted.queue_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true
    LEFT JOIN LATERAL (SELECT queue.max_attempts, queue.backoff_ms, queue.backoff_max_ms FROM telesto.queues AS queue
                       WHERE queue.queue_id = wanted.queue_id
                       LIMIT 1) AS queue ON true;

    WITH removed AS (
        DELETE FROM telesto.leases AS lease
        USING (SELECT unnest(lease_rows) AS lease_row, false AS follows
               UNION ALL
               SELECT unnest(follower_rows), true) AS pick
        WHERE lease.ctid = pick.lease_row
        RETURNING lease.*, pick.follows
    ), known AS (
        SELECT removed.*,
               removed.begun OR removed.message_id = ANY (begun_ids)
               OR (return_leases.reason = 'failed' AND counted AND NOT removed.follows) AS was_begun
        FROM removed
    ), numbered AS (
        SELECT known.*, counted AND NOT known.follows AND coalesce(known.was_begun, false) AS failed,
               -- When a connection is lost, messages may have been begun of which the service was not told.
               known.redelivered OR coalesce(known.was_begun, true)
               OR (counted AND return_leases.reason = 'lost') AS marked,
               telesto.sorted_index(known.queue_id, queues) AS place
        FROM known
    ), judged AS (
        SELECT numbered.*,
               CASE WHEN state_rows[numbered.place] IS NULL THEN 'deleted'
                    WHEN numbered.failed AND (numbered.attempt >= attempts_max[numbered.place]
                                              OR return_leases.rejected) THEN 'dead'
                    ELSE 'returned' END AS ending,
               CASE WHEN numbered.follows THEN 0
                    ELSE coalesce(return_leases.delay_ms,
                                  telesto.backoff(numbered.attempt, backoffs_ms[numbered.place],
                                                  backoffs_max_ms[numbered.place]))
                    END AS wait_ms,
               CASE WHEN numbered.failed THEN numbered.attempt ELSE numbered.attempt - 1 END AS attempts,
               CASE WHEN numbered.receiver_id > 0 THEN NULL
                    WHEN NOT numbered.failed THEN numbered.failed_by
                    WHEN numbered.partition_key IS NULL OR numbered.attempt % failures_per_owner = 0
                         OR numbered.attempt = attempts_max[numbered.place] - 1
                    THEN numbered.consumer_id END AS shunned_id
        FROM numbered
    ), waiting AS (
        SELECT judged.*,
               CASE WHEN judged.shunned_id IS NOT NULL
                    THEN moment + make_interval(secs => judged.wait_ms / 1000.0)
                         + CASE WHEN judged.attempts + 1 < attempts_max[judged.place]
                                THEN kept_for ELSE kept_last END END AS kept_until
        FROM judged
        WHERE judged.ending = 'returned'
    ), noted AS (
        INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, client_id, number,
                                     consumer_id, time_of_arrival, handed_over_at, ended_at, drop_on, ending,
                                     put_through, handed_over_through, attempt, priority, redelivered, reason, body,
                                     headers)
        SELECT judged.message_id, judged.queue_id, judged.sender_id, judged.receiver_id, judged.context,
               judged.client_id, judged.lease_id, judged.consumer_id, judged.time_of_arrival,
               judged.handed_over_at, moment, telesto.history_day(days, today, judged.history),
               judged.ending::telesto.ending, judged.put_through, judged.handed_over_through, judged.attempt,
               judged.priority, judged.redelivered,
               CASE WHEN judged.failed THEN shown_reason
                    ELSE 'given back' END,
               CASE WHEN judged.history < 0 AND judged.ending <> 'returned' THEN judged.body END,
               CASE WHEN judged.ending <> 'returned' THEN judged.headers END
        FROM judged
        WHERE judged.history <> 0 AND return_leases.reason IS NOT NULL
    ), buried AS (
        INSERT INTO telesto.dead_letters (queue_id, message_id, receiver_id, sender_id, context, client_id, session,
                                          number, time_of_arrival, handed_over_at, attempt, priority, redelivered,
                                          reason, body, headers, partition_key, history, put_through,
                                          handed_over_through,
                                          origin)
        SELECT judged.queue_id, judged.message_id, judged.receiver_id, judged.sender_id, judged.context,
               judged.client_id, 0, judged.lease_id, judged.time_of_arrival, judged.handed_over_at, judged.attempt,
               judged.priority, true, shown_reason, judged.body, judged.headers, judged.partition_key,
               judged.history,
               judged.put_through, judged.handed_over_through, judged.origin
        FROM judged
        WHERE judged.ending = 'dead'
    ), placed AS (
        INSERT INTO telesto.messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                      time_of_arrival, attempt, redelivered, body, headers, expires_at, history,
                                      put_through,
                                      origin, failed_by, kept_until)
        SELECT waiting.queue_id, waiting.receiver_id, waiting.priority, waiting.message_id, waiting.sender_id,
               waiting.context, waiting.time_of_arrival, waiting.attempts, waiting.marked, waiting.body,
               waiting.headers,
               waiting.expires_at, waiting.history, waiting.put_through, waiting.origin, waiting.shunned_id,
               waiting.kept_until
        FROM waiting
        WHERE waiting.wait_ms = 0 AND waiting.partition_key IS NULL
    ), keyed AS (
        INSERT INTO telesto.keyed_messages (queue_id, sender_id, partition_key, message_id, context, time_of_arrival,
                                            due_at, expires_at, attempt, priority, redelivered, body, headers, history,
                                            put_through, origin, failed_by)
        SELECT waiting.queue_id, waiting.sender_id, waiting.partition_key, waiting.message_id, waiting.context,
               waiting.time_of_arrival,
               CASE WHEN waiting.wait_ms > 0
                    THEN least(moment + make_interval(secs => waiting.wait_ms / 1000.0), waiting.expires_at) END,
               waiting.expires_at, waiting.attempts, waiting.priority, waiting.marked, waiting.body, waiting.headers,
               waiting.history, waiting.put_through, waiting.origin, waiting.shunned_id
        FROM waiting
        WHERE waiting.partition_key IS NOT NULL
    ), delayed AS (
        INSERT INTO telesto.delayed_messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                              time_of_arrival, due_at, expires_at, attempt, redelivered, body, headers,
                                              history, put_through, origin, failed_by, kept_until)
        SELECT waiting.queue_id, waiting.receiver_id, waiting.priority, waiting.message_id, waiting.sender_id,
               waiting.context, waiting.time_of_arrival,
               least(moment + make_interval(secs => waiting.wait_ms / 1000.0), waiting.expires_at),
               waiting.expires_at, waiting.attempts, waiting.marked, waiting.body, waiting.headers, waiting.history,
               waiting.put_through, waiting.origin, waiting.shunned_id, waiting.kept_until
        FROM waiting
        WHERE waiting.wait_ms > 0 AND waiting.partition_key IS NULL
    )
    SELECT array_agg(judged.queue_id) FILTER (WHERE judged.ending = 'returned'),
           array_agg(judged.receiver_id) FILTER (WHERE judged.ending = 'returned'),
           array_agg(judged.priority) FILTER (WHERE judged.ending = 'returned'),
           array_agg(judged.message_id) FILTER (WHERE judged.ending = 'returned'),
           array_agg(judged.wait_ms > 0 OR judged.partition_key IS NOT NULL) FILTER (WHERE judged.ending = 'returned'),
           array_agg(judged.wait_ms > 0) FILTER (WHERE judged.ending = 'returned'),
           array_agg(judged.queue_id) FILTER (WHERE judged.partition_key IS NOT NULL),
           array_agg(judged.sender_id) FILTER (WHERE judged.partition_key IS NOT NULL),
           array_agg(judged.partition_key) FILTER (WHERE judged.partition_key IS NOT NULL),
           array_agg(judged.message_id) FILTER (WHERE judged.partition_key IS NOT NULL)
    INTO queue_ids, receiver_ids, priorities, message_ids, hidden, quiet, key_queues, key_senders, keys, key_ids
    FROM judged
    WHERE judged.ending <> 'deleted';

    PERFORM telesto.lower_bounds(queues, state_rows, queue_ids, receiver_ids, priorities, message_ids, hidden);
    IF keys IS NOT NULL THEN
        PERFORM telesto.settle_partitions(key_queues, key_senders, keys, key_ids, true);
    END IF;
    IF true = ANY (quiet) OR keys IS NOT NULL THEN
        SELECT array_agg(back.queue_id), array_agg(back.receiver_id)
        INTO queue_ids, receiver_ids
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id, unnest(quiet) AS quiet
              UNION ALL
              SELECT DISTINCT unnest(key_queues), 0, false) AS back
        WHERE NOT back.quiet;
    END IF;
END
$$;
