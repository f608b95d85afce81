-- Procedure:  leave_queues
-- Purpose:    Ends consumers whose connections left or are gone: what they have goes back to its place.
-- Locks:      the queues' take locks (wait)
-- Tables:     consumers (delete), leases (delete), messages (insert), dead_letters (insert), queues (read),
--             take_states, receiver_states (insert, delete),
--             history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.leave_queues(
    queue_ids bigint[],             -- per consumer: its queue
    consumer_ids bigint[],          -- the consumers; one that is gone already is passed over
    counted boolean[],              -- per consumer: whether it counts as a failed attempt of what was begun
    begun_ids bigint[],             -- the messages that they have begun
    OUT queue_ids_back bigint[],    -- per message that came back: its queue
    OUT receiver_ids_back bigint[]  -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    left_queue record;
    back record;
BEGIN
    PERFORM telesto.require_read_committed();
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
    FROM (SELECT DISTINCT unnest(queue_ids) AS queue_id ORDER BY 1) AS queue;
    FOR left_queue IN
        SELECT gone.queue_id, gone.counted, array_agg(gone.consumer_id) AS consumer_ids
        FROM unnest(queue_ids, consumer_ids, counted) AS gone (queue_id, consumer_id, counted)
        GROUP BY gone.queue_id, gone.counted
    LOOP
        SELECT ended.* INTO back
        FROM telesto.end_consumers(left_queue.queue_id, left_queue.consumer_ids, left_queue.counted, begun_ids)
             AS ended;
        queue_ids_back := queue_ids_back || back.queue_ids;
        receiver_ids_back := receiver_ids_back || back.receiver_ids;
    END LOOP;
END
$$;
