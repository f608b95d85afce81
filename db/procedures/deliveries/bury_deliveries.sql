-- Procedure:  bury_deliveries
-- Purpose:    Moves a client's hand-overs from before a time to the dead letters, reason 'unconfirmed'.
-- Returns:
--   bigint                  how many were moved
-- Locks:      none; the caller holds the client's (exclusive)
-- Tables:     deliveries (delete), dead_letters (insert), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.bury_deliveries(
    client_id bigint,  -- the client
    due timestamptz,   -- hand-overs from before
    max_rows int       -- at most this many
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moment constant timestamptz := clock_timestamp();
    today constant date := moment AT TIME ZONE 'UTC';
    days constant date[] := telesto.known_history_days();
    moved bigint;
BEGIN
    WITH buried AS (
        DELETE FROM telesto.deliveries AS delivery
        WHERE delivery.ctid = ANY (ARRAY(
            SELECT delivery.ctid FROM telesto.deliveries AS delivery
            WHERE delivery.client_id = bury_deliveries.client_id AND delivery.handed_over_at < due
            LIMIT max_rows))
        RETURNING delivery.*
    ), noted AS (
        INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, client_id, session,
                                     number, time_of_arrival, handed_over_at, ended_at, drop_on, ending,
                                     put_through, handed_over_through, attempt, priority, redelivered, reason, body,
                                     headers)
        SELECT buried.message_id, buried.queue_id, buried.sender_id, buried.receiver_id, buried.context,
               buried.client_id, buried.session, buried.number, buried.time_of_arrival, buried.handed_over_at,
               moment, telesto.history_day(days, today, buried.history), 'dead', buried.put_through,
               buried.handed_over_through, buried.attempt, buried.priority, buried.redelivered,
               'unconfirmed', CASE WHEN buried.history < 0 THEN buried.body END, buried.headers
        FROM buried
        WHERE buried.history <> 0
    )
    INSERT INTO telesto.dead_letters AS letter (queue_id, message_id, receiver_id, sender_id, context, client_id,
                                                session, number, time_of_arrival, handed_over_at, attempt,
                                                priority, redelivered, reason, body, headers, history, put_through,
                                                handed_over_through, origin)
    SELECT buried.queue_id, buried.message_id, buried.receiver_id, buried.sender_id, buried.context,
           buried.client_id, buried.session, buried.number, buried.time_of_arrival, buried.handed_over_at,
           buried.attempt, buried.priority, buried.redelivered, 'unconfirmed', buried.body, buried.headers,
           buried.history,
           buried.put_through, buried.handed_over_through, buried.origin
    FROM buried;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$$;
