-- Procedure:  end_deliveries
-- Purpose:    Deletes hand-overs that were confirmed and moves what is to be kept of them into the history.
-- Locks:      none; the caller holds the clients'
-- Tables:     deliveries (delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.end_deliveries(
    delivery_rows tid[]  -- where they are; NULL for none
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moment constant timestamptz := clock_timestamp();
    today constant date := moment AT TIME ZONE 'UTC';
    days date[];
BEGIN
    IF delivery_rows IS NULL THEN
        RETURN;
    END IF;
    days := telesto.known_history_days();
    WITH ended AS (
        DELETE FROM telesto.deliveries AS delivery
        WHERE delivery.ctid = ANY (delivery_rows)
        RETURNING delivery.message_id, delivery.queue_id, delivery.sender_id, delivery.receiver_id, delivery.context,
                  delivery.client_id, delivery.session, delivery.number, delivery.time_of_arrival,
                  delivery.handed_over_at, delivery.history, delivery.put_through, delivery.handed_over_through,
                  delivery.attempt, delivery.priority, delivery.redelivered,
                  CASE WHEN delivery.history < 0 THEN delivery.body END AS body, delivery.headers
    )
    INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, client_id, session,
                                 number, time_of_arrival, handed_over_at, ended_at, drop_on, ending,
                                 put_through, handed_over_through, attempt, priority, redelivered, body, headers)
    SELECT ended.message_id, ended.queue_id, ended.sender_id, ended.receiver_id, ended.context, ended.client_id,
           ended.session, ended.number, ended.time_of_arrival, ended.handed_over_at, moment,
           telesto.history_day(days, today, ended.history), 'confirmed', ended.put_through,
           ended.handed_over_through, ended.attempt, ended.priority, ended.redelivered, ended.body, ended.headers
    FROM ended
    WHERE ended.history <> 0;
END
$$;
