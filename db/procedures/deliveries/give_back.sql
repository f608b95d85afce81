-- Procedure:  give_back
-- Purpose:    Puts messages that were handed over back to their place, under their ids, marked redelivered.
--             They are exempt from the queue's bound; what belongs to a queue that is gone is dropped. The
--             history keeps that the client had them.
-- Locks:      queues' take locks (wait); the caller holds the client's
-- Tables:     deliveries (delete), messages (insert), put_states (read), take_states, receiver_states (insert,
--             delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.give_back(
    client_id bigint,          -- whose hand-overs
    sessions bigint[],         -- per message: the session of the read
    numbers bigint[],          -- per message: the read's number
    message_ids bigint[],      -- per message: its id; 0 for all of the read
    OUT queue_ids bigint[],    -- per message that came back: its queue
    OUT receiver_ids bigint[]  -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moment constant timestamptz := clock_timestamp();
    today constant date := moment AT TIME ZONE 'UTC';
    days constant date[] := telesto.known_history_days();
    queues bigint[];
    state_rows tid[];
    back_sessions bigint[];
    back_numbers bigint[];
    back_ids bigint[];
    priorities smallint[];
BEGIN
    SELECT array_agg(delivery.session), array_agg(delivery.number), array_agg(delivery.message_id),
           array_agg(DISTINCT delivery.queue_id)
    INTO back_sessions, back_numbers, back_ids, queues
    FROM (SELECT DISTINCT unnest(sessions) AS session, unnest(numbers) AS number,
                 unnest(message_ids) AS message_id) AS given
    CROSS JOIN LATERAL (SELECT delivery.* FROM telesto.deliveries AS delivery
                        WHERE delivery.client_id = give_back.client_id
                          AND delivery.session = given.session
                          AND delivery.number = given.number
                          AND (given.message_id = 0 OR delivery.message_id = given.message_id)
                        OFFSET 0) AS delivery;
    IF queues IS NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
    FROM (SELECT unnest(queues) AS queue_id ORDER BY 1) AS queue;

    -- A queue without a state does not exist (any more).
    SELECT array_agg(state.ctid)
    INTO state_rows
    FROM (SELECT unnest(queues) AS queue_id) AS queue
    LEFT JOIN LATERAL (SELECT state.ctid FROM telesto.take_states AS state
                       WHERE state.queue_id = queue.queue_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true;

    -- By key and not by place: they may have been confirmed while the locks were waited for.
    WITH removed AS (
        DELETE FROM telesto.deliveries AS delivery
        WHERE delivery.ctid = ANY (ARRAY(
            SELECT delivery.ctid
            FROM (SELECT unnest(back_sessions) AS session, unnest(back_numbers) AS number,
                         unnest(back_ids) AS message_id) AS back
            CROSS JOIN LATERAL (SELECT delivery.ctid FROM telesto.deliveries AS delivery
                                WHERE delivery.client_id = give_back.client_id
                                  AND delivery.session = back.session
                                  AND delivery.number = back.number
                                  AND delivery.message_id = back.message_id
                                LIMIT 1) AS delivery))
        RETURNING delivery.*
    ), noted AS (
        INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, client_id, session,
                                     number, time_of_arrival, handed_over_at, ended_at, drop_on, ending,
                                     put_through, handed_over_through, attempt, priority, redelivered, body, headers)
        SELECT removed.message_id, removed.queue_id, removed.sender_id, removed.receiver_id, removed.context,
               removed.client_id, removed.session, removed.number, removed.time_of_arrival, removed.handed_over_at,
               moment, telesto.history_day(days, today, removed.history), gone.ending, removed.put_through,
               removed.handed_over_through, removed.attempt, removed.priority, removed.redelivered,
               CASE WHEN removed.history < 0 AND gone.ending = 'deleted' THEN removed.body END,
               CASE WHEN gone.ending = 'deleted' THEN removed.headers END
        FROM removed
        CROSS JOIN LATERAL (
            SELECT CASE WHEN state_rows[telesto.sorted_index(removed.queue_id, queues)] IS NULL
                        THEN 'deleted' ELSE 'returned' END::telesto.ending AS ending) AS gone
        WHERE removed.history <> 0
    ), placed AS (
        INSERT INTO telesto.messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                      time_of_arrival, attempt, redelivered, body, headers, expires_at, history,
                                      put_through,
                                      origin)
        SELECT removed.queue_id, removed.receiver_id, removed.priority, removed.message_id, removed.sender_id,
               removed.context, removed.time_of_arrival, removed.attempt, true, removed.body, removed.headers,
               removed.expires_at,
               removed.history, removed.put_through, removed.origin
        FROM removed
        WHERE state_rows[telesto.sorted_index(removed.queue_id, queues)] IS NOT NULL
        RETURNING queue_id, receiver_id, priority, message_id
    )
    SELECT array_agg(placed.queue_id), array_agg(placed.receiver_id), array_agg(placed.priority),
           array_agg(placed.message_id)
    INTO queue_ids, receiver_ids, priorities, back_ids
    FROM placed;

    PERFORM telesto.lower_bounds(queues, state_rows, queue_ids, receiver_ids, priorities, back_ids);
END
$$;
