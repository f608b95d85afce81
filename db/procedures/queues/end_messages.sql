-- Procedure:  end_messages
-- Purpose:    Deletes messages that wait and nobody will get, and moves what is to be kept of them into the history.
-- Returns:
--   void
-- Errors:     none raised
-- Locks:      none; the caller holds the queues' take locks, or their queues are deleted
-- Tables:     messages, delayed_messages, keyed_messages (delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.end_messages(
    message_rows tid[],    -- where those are that are ready; NULL for none
    delayed_rows tid[],    -- where those are that are delayed; NULL for none
    keyed_rows tid[],      -- where those of partitions are; NULL for none
    ending telesto.ending  -- how they ended
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
    WITH ready AS (
        DELETE FROM telesto.messages AS message WHERE message.ctid = ANY (message_rows)
        RETURNING message.message_id, message.queue_id, message.sender_id, message.receiver_id, message.context,
                  message.time_of_arrival, message.history, message.put_through, message.attempt, message.priority,
                  message.redelivered, CASE WHEN message.history < 0 THEN message.body END AS body
    ), delayed AS (
        DELETE FROM telesto.delayed_messages AS message WHERE message.ctid = ANY (delayed_rows)
        RETURNING message.message_id, message.queue_id, message.sender_id, message.receiver_id, message.context,
                  message.time_of_arrival, message.history, message.put_through, message.attempt, message.priority,
                  message.redelivered, CASE WHEN message.history < 0 THEN message.body END AS body
    ), keyed AS (
        DELETE FROM telesto.keyed_messages AS message WHERE message.ctid = ANY (keyed_rows)
        RETURNING message.message_id, message.queue_id, message.sender_id, 0::bigint AS receiver_id, message.context,
                  message.time_of_arrival, message.history, message.put_through, message.attempt, message.priority,
                  message.redelivered, CASE WHEN message.history < 0 THEN message.body END AS body
    ), removed AS (
        SELECT * FROM ready UNION ALL SELECT * FROM delayed UNION ALL SELECT * FROM keyed
    )
    INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, time_of_arrival, ended_at,
                                 drop_on, ending, put_through, attempt, priority, redelivered, body)
    SELECT removed.message_id, removed.queue_id, removed.sender_id, removed.receiver_id, removed.context,
           removed.time_of_arrival, moment, telesto.history_day(days, today, removed.history), end_messages.ending,
           removed.put_through, removed.attempt, removed.priority, removed.redelivered, removed.body
    FROM removed
    WHERE removed.history <> 0;
END
$$;
