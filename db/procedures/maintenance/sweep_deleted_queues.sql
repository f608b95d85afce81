-- Procedure:  sweep_deleted_queues
-- Purpose:    Removes messages of deleted queues, queue by queue along the primary key, from where the last
--             turn ended: what that one removed is not walked over again.
-- Locks:      the deleted queue's row
-- Tables:     deleted_queues (update, delete), messages, delayed_messages, keyed_messages, partitions,
--             partition_arrivals, partition_states, receiver_states (delete), history_calendar (read),
--             history (insert)
CREATE OR REPLACE FUNCTION telesto.sweep_deleted_queues(
    max_rows int,     -- at most this many messages
    OUT done bigint,  -- how many were removed
    OUT more boolean  -- whether there is more to do
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    deleted telesto.deleted_queues;
    chunk record;
    delayed_rows tid[] := '{}';
    keyed_rows tid[] := '{}';
    ready int;
    removed int;
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

    SELECT array_agg(message.ctid) AS rows, array_agg(message.receiver_id) AS receiver_ids,
           array_agg(message.priority) AS priorities, array_agg(message.message_id) AS message_ids
    INTO chunk
    FROM (SELECT message.ctid, message.receiver_id, message.priority, message.message_id
          FROM telesto.messages AS message
          WHERE message.queue_id = deleted.queue_id
            AND (message.receiver_id, message.priority, message.message_id)
                > (deleted.receiver_id, deleted.priority, deleted.message_id)
          ORDER BY message.queue_id, message.receiver_id, message.priority, message.message_id
          LIMIT max_rows) AS message;
    ready := coalesce(cardinality(chunk.rows), 0);
    done := ready;
    IF done < max_rows THEN
        delayed_rows := ARRAY(SELECT message.ctid FROM telesto.delayed_messages AS message
                              WHERE message.queue_id = deleted.queue_id
                              LIMIT max_rows - done);
        done := done + cardinality(delayed_rows);
        keyed_rows := ARRAY(SELECT message.ctid FROM telesto.keyed_messages AS message
                            WHERE message.queue_id = deleted.queue_id
                            LIMIT max_rows - done);
        done := done + cardinality(keyed_rows);
        DELETE FROM telesto.partitions AS record
        WHERE record.ctid = ANY (ARRAY(SELECT record.ctid FROM telesto.partitions AS record
                                       WHERE record.queue_id = deleted.queue_id
                                       LIMIT max_rows - done));
        GET DIAGNOSTICS removed = ROW_COUNT;
        done := done + removed;
        DELETE FROM telesto.partition_arrivals AS arrival
        WHERE arrival.ctid = ANY (ARRAY(SELECT arrival.ctid FROM telesto.partition_arrivals AS arrival
                                        WHERE arrival.queue_id = deleted.queue_id
                                        LIMIT max_rows - done));
        GET DIAGNOSTICS removed = ROW_COUNT;
        done := done + removed;
    END IF;
    PERFORM telesto.end_messages(chunk.rows, delayed_rows, keyed_rows, 'deleted');
    IF done < max_rows THEN
        DELETE FROM telesto.receiver_states AS state WHERE state.queue_id = deleted.queue_id;
        DELETE FROM telesto.partition_states AS state WHERE state.queue_id = deleted.queue_id;
        DELETE FROM telesto.deleted_queues AS queue WHERE queue.queue_id = deleted.queue_id;
        more := EXISTS (SELECT FROM telesto.deleted_queues);
    ELSE
        UPDATE telesto.deleted_queues AS queue
        SET receiver_id = chunk.receiver_ids[ready], priority = chunk.priorities[ready],
            message_id = chunk.message_ids[ready]
        WHERE queue.queue_id = deleted.queue_id AND ready > 0;
        more := true;
    END IF;
END
$$;
