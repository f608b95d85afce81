-- Procedure:  end_messages
-- Purpose:    Deletes waiting messages that no client will get, and moves what is to be kept of them into the history. Those
--             that have expired go to the dead letters if their queue says so.
-- Locks:      none; the caller holds the queues' take locks, or their queues are deleted
-- Tables:     messages, delayed_messages, keyed_messages (delete), queues, history_calendar (read), history, dead_letters
--             (insert)
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
                  message.time_of_arrival, message.expires_at, message.history, message.put_through, message.attempt,
                  message.priority, message.redelivered, message.origin, NULL AS partition_key,
                  CASE WHEN message.history < 0 OR end_messages.ending = 'expired' THEN message.body END AS body,
                  message.headers
    ), delayed AS (
        DELETE FROM telesto.delayed_messages AS message WHERE message.ctid = ANY (delayed_rows)
        RETURNING message.message_id, message.queue_id, message.sender_id, message.receiver_id, message.context,
                  message.time_of_arrival, message.expires_at, message.history, message.put_through, message.attempt,
                  message.priority, message.redelivered, message.origin, NULL AS partition_key,
                  CASE WHEN message.history < 0 OR end_messages.ending = 'expired' THEN message.body END AS body,
                  message.headers
    ), keyed AS (
        DELETE FROM telesto.keyed_messages AS message WHERE message.ctid = ANY (keyed_rows)
        RETURNING message.message_id, message.queue_id, message.sender_id, 0::bigint AS receiver_id, message.context,
                  message.time_of_arrival, message.expires_at, message.history, message.put_through, message.attempt,
                  message.priority, message.redelivered, message.origin, message.partition_key,
                  CASE WHEN message.history < 0 OR end_messages.ending = 'expired' THEN message.body END AS body,
                  message.headers
    ), removed AS (
        SELECT ended.*, burying.reason
        FROM (SELECT * FROM ready UNION ALL SELECT * FROM delayed UNION ALL SELECT * FROM keyed) AS ended
        LEFT JOIN LATERAL (SELECT 'expired' AS reason FROM telesto.queues AS queue
                           WHERE end_messages.ending = 'expired' AND queue.queue_id = ended.queue_id
                             AND queue.bury_expired
                           LIMIT 1) AS burying ON true
    ), noted AS (
        INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, time_of_arrival, ended_at,
                                     drop_on, ending, put_through, attempt, priority, redelivered, reason, body,
                                     headers)
        SELECT removed.message_id, removed.queue_id, removed.sender_id, removed.receiver_id, removed.context,
               removed.time_of_arrival, moment, telesto.history_day(days, today, removed.history),
               CASE WHEN removed.reason IS NULL THEN end_messages.ending ELSE 'dead' END, removed.put_through,
               removed.attempt, removed.priority, removed.redelivered, removed.reason,
               CASE WHEN removed.history < 0 THEN removed.body END, removed.headers
        FROM removed
        WHERE removed.history <> 0
    )
    INSERT INTO telesto.dead_letters (queue_id, message_id, receiver_id, sender_id, context, client_id, session, number,
                                      time_of_arrival, handed_over_at, attempt, priority, redelivered, reason, body,
                                      headers,
                                      partition_key, history, put_through, origin)
    SELECT removed.queue_id, removed.message_id, removed.receiver_id, removed.sender_id, removed.context, 0, 0, 0,
           removed.time_of_arrival, removed.expires_at, removed.attempt, removed.priority, removed.redelivered,
           removed.reason, removed.body, removed.headers, removed.partition_key, removed.history,
           removed.put_through, removed.origin
    FROM removed
    WHERE removed.reason IS NOT NULL;
END
$$;
