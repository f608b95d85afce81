-- Procedure:  return_leases
-- Purpose:    Puts leased messages back to their place, under their ids, marked redelivered. One that has failed
--             as often as its queue allows goes to the dead letters. They are exempt from the queue's bound; what
--             belongs to a queue that is gone is dropped. The history keeps that a consumer had them.
-- Parameters:
--   queues bigint[]         the queues whose take locks are held, sorted
--   lease_rows tid[]        where the leases are; the caller has locked these rows
--   counted boolean         whether this counts as an attempt that failed
--   reason text             why, for the dead letters
--   delay_ms bigint         how long they wait before they can be read again, in milliseconds; NULL for as long as
--                           their queue's backoff says
-- Returns:
--   queue_ids bigint[]      per message that can be read again: its queue
--   receiver_ids bigint[]   per message that can be read again: for whom; 0 for anyone
-- Errors:     none raised
-- Locks:      none; the caller holds the queues'
-- Tables:     leases (delete), queues (read), messages, delayed_messages, dead_letters (insert), take_states,
--             receiver_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.return_leases(
    queues bigint[],
    lease_rows tid[],
    counted boolean,
    reason text,
    delay_ms bigint,
    OUT queue_ids bigint[],
    OUT receiver_ids bigint[]
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moment constant timestamptz := clock_timestamp();
    today constant date := moment AT TIME ZONE 'UTC';
    days constant date[] := (SELECT calendar.days FROM telesto.history_calendar AS calendar WHERE calendar.only_row);
    state_rows tid[];
    attempts_max int[];
    backoffs_ms int[];
    backoffs_max_ms int[];
    priorities smallint[];
    message_ids bigint[];
    hidden boolean[];
BEGIN
    IF lease_rows = '{}' THEN
        RETURN;
    END IF;
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
        DELETE FROM telesto.leases AS lease WHERE lease.ctid = ANY (lease_rows) RETURNING lease.*
    ), judged AS (
        SELECT removed.*,
               CASE WHEN state_rows[width_bucket(removed.queue_id, queues)] IS NULL THEN 'deleted'
                    WHEN counted AND removed.attempt >= attempts_max[width_bucket(removed.queue_id, queues)] THEN 'dead'
                    ELSE 'returned' END AS ending,
               coalesce(return_leases.delay_ms,
                        telesto.backoff(removed.attempt, backoffs_ms[width_bucket(removed.queue_id, queues)],
                                        backoffs_max_ms[width_bucket(removed.queue_id, queues)])) AS wait_ms,
               CASE WHEN counted THEN removed.attempt ELSE removed.attempt - 1 END AS attempts
        FROM removed
    ), noted AS (
        INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, client_id, number,
                                     consumer_id, time_of_arrival, handed_over_at, ended_at, drop_on, ending,
                                     put_through, handed_over_through, attempt, priority, redelivered, reason, body)
        SELECT judged.message_id, judged.queue_id, judged.sender_id, judged.receiver_id, judged.context,
               judged.client_id, judged.lease_id, judged.consumer_id, judged.time_of_arrival,
               judged.handed_over_at, moment, telesto.history_day(days, today, judged.history),
               judged.ending::telesto.ending, judged.put_through, judged.handed_over_through, judged.attempt,
               judged.priority, judged.redelivered, CASE WHEN counted THEN return_leases.reason ELSE 'given back' END,
               CASE WHEN judged.history < 0 AND judged.ending <> 'returned' THEN judged.body END
        FROM judged
        WHERE judged.history <> 0
    ), buried AS (
        INSERT INTO telesto.dead_letters (queue_id, message_id, receiver_id, sender_id, context, client_id, session,
                                          number, time_of_arrival, handed_over_at, attempt, priority, redelivered,
                                          reason, body, history, put_through, handed_over_through)
        SELECT judged.queue_id, judged.message_id, judged.receiver_id, judged.sender_id, judged.context,
               judged.client_id, 0, judged.lease_id, judged.time_of_arrival, judged.handed_over_at, judged.attempt,
               judged.priority, true, return_leases.reason, judged.body, judged.history, judged.put_through,
               judged.handed_over_through
        FROM judged
        WHERE judged.ending = 'dead'
    ), placed AS (
        INSERT INTO telesto.messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                      time_of_arrival, attempt, redelivered, body, expires_at, history, put_through)
        SELECT judged.queue_id, judged.receiver_id, judged.priority, judged.message_id, judged.sender_id,
               judged.context, judged.time_of_arrival, judged.attempts, true, judged.body, judged.expires_at,
               judged.history, judged.put_through
        FROM judged
        WHERE judged.ending = 'returned' AND judged.wait_ms = 0
    ), delayed AS (
        INSERT INTO telesto.delayed_messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                              time_of_arrival, due_at, expires_at, attempt, redelivered, body,
                                              history, put_through)
        SELECT judged.queue_id, judged.receiver_id, judged.priority, judged.message_id, judged.sender_id,
               judged.context, judged.time_of_arrival,
               least(moment + make_interval(secs => judged.wait_ms / 1000.0), judged.expires_at), judged.expires_at,
               judged.attempts, true, judged.body, judged.history, judged.put_through
        FROM judged
        WHERE judged.ending = 'returned' AND judged.wait_ms > 0
    )
    SELECT array_agg(judged.queue_id), array_agg(judged.receiver_id), array_agg(judged.priority),
           array_agg(judged.message_id), array_agg(judged.wait_ms > 0)
    INTO queue_ids, receiver_ids, priorities, message_ids, hidden
    FROM judged
    WHERE judged.ending = 'returned';

    PERFORM telesto.lower_bounds(queues, state_rows, queue_ids, receiver_ids, priorities, message_ids, hidden);
    IF true = ANY (hidden) THEN
        SELECT array_agg(back.queue_id), array_agg(back.receiver_id)
        INTO queue_ids, receiver_ids
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id, unnest(hidden) AS hidden)
             AS back
        WHERE NOT back.hidden;
    END IF;
END
$$;
