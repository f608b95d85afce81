-- Procedure:  end_leases
-- Purpose:    Deletes leases that were acknowledged and moves what is to be kept of them into the history.
-- Tables:     leases (delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.end_leases(
    lease_rows tid[]  -- where they are; the caller has locked these rows
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moment constant timestamptz := clock_timestamp();
    today constant date := moment AT TIME ZONE 'UTC';
    days constant date[] := telesto.known_history_days();
BEGIN
    WITH ended AS (
        DELETE FROM telesto.leases AS lease
        WHERE lease.ctid = ANY (lease_rows)
        RETURNING lease.message_id, lease.queue_id, lease.sender_id, lease.receiver_id, lease.context,
                  lease.client_id, lease.lease_id, lease.consumer_id, lease.time_of_arrival, lease.handed_over_at,
                  lease.history, lease.put_through, lease.handed_over_through, lease.attempt, lease.priority,
                  lease.redelivered, CASE WHEN lease.history < 0 THEN lease.body END AS body, lease.headers
    )
    INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, client_id, number, consumer_id,
                                 time_of_arrival, handed_over_at, ended_at, drop_on, ending, put_through,
                                 handed_over_through, attempt, priority, redelivered, body, headers)
    SELECT ended.message_id, ended.queue_id, ended.sender_id, ended.receiver_id, ended.context, ended.client_id,
           ended.lease_id, ended.consumer_id, ended.time_of_arrival, ended.handed_over_at, moment,
           telesto.history_day(days, today, ended.history), 'acknowledged', ended.put_through,
           ended.handed_over_through, ended.attempt, ended.priority, ended.redelivered, ended.body, ended.headers
    FROM ended
    WHERE ended.history <> 0;
END
$$;
