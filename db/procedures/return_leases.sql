-- Procedure:  return_leases
-- Purpose:    Puts leased messages back to their place, under their ids, marked redelivered. One that has failed
--             as often as its queue allows goes to the dead letters. They are exempt from the queue's bound; what
--             belongs to a queue that is gone is dropped.
-- Parameters:
--   queues bigint[]         the queues whose take locks are held, sorted
--   lease_rows tid[]        where the leases are; the caller has locked these rows
--   counted boolean         whether this counts as an attempt that failed
--   reason text             why, for the dead letters
-- Returns:
--   queue_ids bigint[]      per message that came back: its queue
--   receiver_ids bigint[]   per message that came back: for whom; 0 for anyone
-- Errors:     none raised
-- Locks:      none; the caller holds the queues'
-- Tables:     leases (delete), queues (read), messages (insert), dead_letters (insert), take_states,
--             receiver_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.return_leases(
    queues bigint[],
    lease_rows tid[],
    counted boolean,
    reason text,
    OUT queue_ids bigint[],
    OUT receiver_ids bigint[]
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    state_rows tid[];
    attempts_max int[];
    priorities smallint[];
    message_ids bigint[];
BEGIN
    IF lease_rows = '{}' THEN
        RETURN;
    END IF;
    -- A queue without a state does not exist (any more).
    SELECT array_agg(state.ctid), array_agg(queue.max_attempts)
    INTO state_rows, attempts_max
    FROM (SELECT unnest(queues) AS queue_id) AS wanted
    LEFT JOIN LATERAL (SELECT state.ctid FROM telesto.take_states AS state
                       WHERE state.queue_id = wanted.queue_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true
    LEFT JOIN LATERAL (SELECT queue.max_attempts FROM telesto.queues AS queue
                       WHERE queue.queue_id = wanted.queue_id
                       LIMIT 1) AS queue ON true;

    WITH removed AS (
        DELETE FROM telesto.leases AS lease WHERE lease.ctid = ANY (lease_rows) RETURNING lease.*
    ), judged AS (
        SELECT removed.*,
               counted AND removed.attempt >= attempts_max[width_bucket(removed.queue_id, queues)] AS dead
        FROM removed
        WHERE state_rows[width_bucket(removed.queue_id, queues)] IS NOT NULL
    ), buried AS (
        INSERT INTO telesto.dead_letters (queue_id, message_id, receiver_id, sender_id, context, client_id, session,
                                          number, time_of_arrival, handed_over_at, attempt, priority, redelivered,
                                          reason, body)
        SELECT judged.queue_id, judged.message_id, judged.receiver_id, judged.sender_id, judged.context,
               judged.client_id, 0, judged.lease_id, judged.time_of_arrival, judged.deadline, judged.attempt,
               judged.priority, true, return_leases.reason, judged.body
        FROM judged
        WHERE judged.dead
    ), placed AS (
        INSERT INTO telesto.messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                      time_of_arrival, attempt, redelivered, body)
        SELECT judged.queue_id, judged.receiver_id, judged.priority, judged.message_id, judged.sender_id,
               judged.context, judged.time_of_arrival,
               CASE WHEN counted THEN judged.attempt ELSE judged.attempt - 1 END, true, judged.body
        FROM judged
        WHERE NOT judged.dead
        RETURNING queue_id, receiver_id, priority, message_id
    )
    SELECT array_agg(placed.queue_id), array_agg(placed.receiver_id), array_agg(placed.priority),
           array_agg(placed.message_id)
    INTO queue_ids, receiver_ids, priorities, message_ids
    FROM placed;

    PERFORM telesto.lower_bounds(queues, state_rows, queue_ids, receiver_ids, priorities, message_ids);
END
$$;
