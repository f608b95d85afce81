-- Procedure:  hand_over
-- Purpose:    Moves messages to the reads that take them, in one statement: from messages to deliveries, or out
--             of the service for a read without a number.
-- Locks:      none; the caller holds the clients' and the queues'
-- Tables:     messages (delete), deliveries (insert), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.hand_over(
    message_rows tid[],      -- per message: where it is
    message_requests int[],  -- per message: the request that takes it, counted from 1
    client_ids bigint[],     -- per request: who reads
    sessions bigint[],       -- per request: the session
    numbers bigint[],        -- per request: its number; 0 leaves no delivery: the message is over with its hand-over
    middleware_id int        -- through which middleware; NULL for none
)
RETURNS SETOF telesto.taken_message
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moment constant timestamptz := clock_timestamp();
    today constant date := moment AT TIME ZONE 'UTC';
    days date[];
BEGIN
    IF 0 = ANY (numbers) THEN
        days := telesto.known_history_days();
    END IF;
    RETURN QUERY
    WITH claimed AS (
        DELETE FROM telesto.messages AS message
        USING (SELECT unnest(message_rows) AS message_row, unnest(message_requests) AS request) AS pick
        WHERE message.ctid = pick.message_row
        RETURNING pick.request, message.*
    ), delivered AS (
        INSERT INTO telesto.deliveries (client_id, session, number, message_id, queue_id, receiver_id, sender_id,
                                        context, time_of_arrival, handed_over_at, attempt, priority, redelivered,
                                        body, headers, expires_at, history, put_through, handed_over_through, origin)
        SELECT client_ids[claimed.request], sessions[claimed.request], numbers[claimed.request],
               claimed.message_id, claimed.queue_id, claimed.receiver_id, claimed.sender_id, claimed.context,
               claimed.time_of_arrival, moment, claimed.attempt + 1, claimed.priority,
               claimed.redelivered, claimed.body, claimed.headers, claimed.expires_at, claimed.history,
               claimed.put_through, middleware_id, claimed.origin
        FROM claimed
        WHERE numbers[claimed.request] <> 0
    ), ended AS (
        -- A session has a number; SQL users have none: their commit is the confirmation.
        INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, client_id, session,
                                     number, time_of_arrival, handed_over_at, ended_at, drop_on, ending,
                                     put_through, handed_over_through, attempt, priority, redelivered, body, headers)
        SELECT claimed.message_id, claimed.queue_id, claimed.sender_id, claimed.receiver_id, claimed.context,
               client_ids[claimed.request], sessions[claimed.request], 0, claimed.time_of_arrival, moment, moment,
               telesto.history_day(days, today, claimed.history),
               CASE WHEN sessions[claimed.request] = 0 THEN 'confirmed' ELSE 'unrecorded' END::telesto.ending,
               claimed.put_through, middleware_id, claimed.attempt + 1, claimed.priority, claimed.redelivered,
               CASE WHEN claimed.history < 0 THEN claimed.body END, claimed.headers
        FROM claimed
        WHERE numbers[claimed.request] = 0 AND claimed.history <> 0
    )
    SELECT claimed.request, NULL::smallint, NULL::bigint, claimed.message_id, claimed.queue_id,
           claimed.sender_id, claimed.receiver_id, claimed.priority, claimed.time_of_arrival,
           claimed.attempt + 1, claimed.redelivered, claimed.context, claimed.body, claimed.headers, claimed.origin,
           telesto.life_left(claimed.expires_at, moment)
    FROM claimed;
END
$$;
