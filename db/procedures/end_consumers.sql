-- Procedure:  end_consumers
-- Purpose:    Ends consumers of a queue: what they have goes back to its place.
-- Parameters:
--   queue_id bigint         the queue
--   consumer_ids bigint[]   its consumers; one that is gone is passed over
--   counted boolean         whether what comes back counts as an attempt that failed
-- Returns:
--   queue_ids bigint[]      per message that came back: its queue
--   receiver_ids bigint[]   per message that came back: for whom; 0 for anyone
-- Errors:     none raised
-- Locks:      none; the caller holds the queue's take lock. Leases that another transaction ends are left to it
-- Tables:     consumers (delete), leases (delete), messages, dead_letters (insert), queues (read),
--             take_states, receiver_states (insert, delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.end_consumers(
    queue_id bigint,
    consumer_ids bigint[],
    counted boolean,
    OUT queue_ids bigint[],
    OUT receiver_ids bigint[]
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    IF consumer_ids = '{}' THEN
        RETURN;
    END IF;
    DELETE FROM telesto.consumers AS consumer
    WHERE consumer.queue_id = end_consumers.queue_id AND consumer.consumer_id = ANY (consumer_ids);
    SELECT back.queue_ids, back.receiver_ids INTO queue_ids, receiver_ids
    FROM telesto.return_leases(ARRAY[end_consumers.queue_id],
                               ARRAY(SELECT lease.ctid
                                     FROM (SELECT unnest(consumer_ids) AS consumer_id) AS ended
                                     CROSS JOIN LATERAL (SELECT lease.ctid FROM telesto.leases AS lease
                                                         WHERE lease.consumer_id = ended.consumer_id
                                                         FOR UPDATE SKIP LOCKED) AS lease),
                               counted, 'lost', 0) AS back;
END
$$;
