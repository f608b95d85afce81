-- Procedure:  sweep_deleted_queues
-- Purpose:    Removes messages of deleted queues, queue by queue along the primary key, from where the last
--             turn ended: what that one removed is not walked over again.
-- Parameters:
--   max_rows int            at most so many messages
-- Returns:
--   done bigint             how many were removed
--   more boolean            whether there is more to do
-- Errors:     none raised
-- Locks:      the deleted queue's row
-- Tables:     deleted_queues (update, delete), messages, delayed_messages, keyed_messages, partitions,
--             partition_arrivals, partition_states, receiver_states (delete), history_calendar (read),
--             history (insert)
CREATE OR REPLACE FUNCTION telesto.sweep_deleted_queues(max_rows int, OUT done bigint, OUT more boolean)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moment constant timestamptz := clock_timestamp();
    today constant date := moment AT TIME ZONE 'UTC';
    days constant date[] := (SELECT calendar.days FROM telesto.history_calendar AS calendar WHERE calendar.only_row);
    deleted telesto.deleted_queues;
    last record;
    delayed int := 0;
    keyed int;
BEGIN
    done := 0;
    more := false;
    SELECT queue.* INTO deleted
    FROM telesto.deleted_queues AS queue
    ORDER BY queue.queue_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    WITH chunk AS (
        SELECT message.ctid, message.receiver_id, message.priority, message.message_id
        FROM telesto.messages AS message
        WHERE message.queue_id = deleted.queue_id
          AND (message.receiver_id, message.priority, message.message_id)
              > (deleted.receiver_id, deleted.priority, deleted.message_id)
        ORDER BY message.queue_id, message.receiver_id, message.priority, message.message_id
        LIMIT max_rows
    ), removed AS (
        DELETE FROM telesto.messages AS message WHERE message.ctid = ANY (ARRAY(SELECT chunk.ctid FROM chunk))
        RETURNING message.*
    ), noted AS (
        INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, time_of_arrival, ended_at,
                                     drop_on, ending, put_through, attempt, priority, redelivered, body)
        SELECT removed.message_id, removed.queue_id, removed.sender_id, removed.receiver_id, removed.context,
               removed.time_of_arrival, moment, telesto.history_day(days, today, removed.history), 'deleted',
               removed.put_through, removed.attempt, removed.priority, removed.redelivered,
               CASE WHEN removed.history < 0 THEN removed.body END
        FROM removed
        WHERE removed.history <> 0
    )
    SELECT removed.receiver_id, removed.priority, removed.message_id, count(*) OVER () AS n INTO last
    FROM removed
    ORDER BY removed.receiver_id DESC, removed.priority DESC, removed.message_id DESC
    LIMIT 1;
    done := coalesce(last.n, 0);
    IF done < max_rows THEN
        WITH removed AS (
            DELETE FROM telesto.delayed_messages AS message
            WHERE message.ctid = ANY (ARRAY(SELECT message.ctid FROM telesto.delayed_messages AS message
                                            WHERE message.queue_id = deleted.queue_id
                                            LIMIT max_rows - done))
            RETURNING message.*
        ), noted AS (
            INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, time_of_arrival, ended_at,
                                         drop_on, ending, put_through, attempt, priority, redelivered, body)
            SELECT removed.message_id, removed.queue_id, removed.sender_id, removed.receiver_id, removed.context,
                   removed.time_of_arrival, moment, telesto.history_day(days, today, removed.history), 'deleted',
                   removed.put_through, removed.attempt, removed.priority, removed.redelivered,
                   CASE WHEN removed.history < 0 THEN removed.body END
            FROM removed
            WHERE removed.history <> 0
        )
        SELECT count(*) INTO delayed FROM removed;
        WITH removed AS (
            DELETE FROM telesto.keyed_messages AS message
            WHERE message.ctid = ANY (ARRAY(SELECT message.ctid FROM telesto.keyed_messages AS message
                                            WHERE message.queue_id = deleted.queue_id
                                            LIMIT max_rows - done - delayed))
            RETURNING message.*
        ), noted AS (
            INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, time_of_arrival,
                                         ended_at, drop_on, ending, put_through, attempt, priority, redelivered,
                                         body)
            SELECT removed.message_id, removed.queue_id, removed.sender_id, 0, removed.context,
                   removed.time_of_arrival, moment, telesto.history_day(days, today, removed.history), 'deleted',
                   removed.put_through, removed.attempt, removed.priority, removed.redelivered,
                   CASE WHEN removed.history < 0 THEN removed.body END
            FROM removed
            WHERE removed.history <> 0
        )
        SELECT count(*) INTO keyed FROM removed;
        delayed := delayed + keyed;
        DELETE FROM telesto.partitions AS record
        WHERE record.ctid = ANY (ARRAY(SELECT record.ctid FROM telesto.partitions AS record
                                       WHERE record.queue_id = deleted.queue_id
                                       LIMIT max_rows - done - delayed));
        GET DIAGNOSTICS keyed = ROW_COUNT;
        delayed := delayed + keyed;
        DELETE FROM telesto.partition_arrivals AS arrival
        WHERE arrival.ctid = ANY (ARRAY(SELECT arrival.ctid FROM telesto.partition_arrivals AS arrival
                                        WHERE arrival.queue_id = deleted.queue_id
                                        LIMIT max_rows - done - delayed));
        GET DIAGNOSTICS keyed = ROW_COUNT;
        delayed := delayed + keyed;
    END IF;
    IF done + delayed < max_rows THEN
        DELETE FROM telesto.receiver_states AS state WHERE state.queue_id = deleted.queue_id;
        DELETE FROM telesto.partition_states AS state WHERE state.queue_id = deleted.queue_id;
        DELETE FROM telesto.deleted_queues AS queue WHERE queue.queue_id = deleted.queue_id;
        more := EXISTS (SELECT FROM telesto.deleted_queues);
    ELSE
        UPDATE telesto.deleted_queues AS queue
        SET receiver_id = last.receiver_id, priority = last.priority, message_id = last.message_id
        WHERE queue.queue_id = deleted.queue_id AND last.n > 0;
        more := true;
    END IF;
    done := done + delayed;
END
$$;
