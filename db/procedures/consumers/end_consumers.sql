-- Procedure:  end_consumers
-- Purpose:    Ends consumers of a queue: what they have goes back to its place.
-- Locks:      none; the caller holds the queue's take lock. Leases that another transaction ends are left to it, and
--             noted: if it does not commit, the sweep gives them back
-- Tables:     consumers, leases (delete), ended_consumers, messages, keyed_messages, dead_letters (insert), queues
--             (read), take_states, receiver_states, partitions (insert, delete), history_calendar (read), history
--             (insert)
CREATE OR REPLACE FUNCTION telesto.end_consumers(
    queue_id bigint,           -- the queue
    consumer_ids bigint[],     -- its consumers; one that is gone is passed over
    counted boolean,           -- whether it counts as a failed attempt of what was begun
    begun_ids bigint[],        -- the messages that they have begun, among others; NULL when this is not known
    OUT queue_ids bigint[],    -- per message that came back: its queue
    OUT receiver_ids bigint[]  -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    freed int;
BEGIN
    IF consumer_ids = '{}' THEN
        RETURN;
    END IF;
    DELETE FROM telesto.consumers AS consumer
    WHERE consumer.queue_id = end_consumers.queue_id AND consumer.consumer_id = ANY (consumer_ids);
    -- What else was ready for them has no owner now.
    WITH removed AS (
        DELETE FROM telesto.partitions AS record
        WHERE record.ctid = ANY (ARRAY(SELECT record.ctid
                                       FROM (SELECT unnest(consumer_ids) AS consumer_id) AS ended
                                       CROSS JOIN LATERAL (SELECT record.ctid FROM telesto.partitions AS record
                                                           WHERE record.line = 1 AND record.line_id = ended.consumer_id
                                                           ORDER BY record.place
                                                           OFFSET 0) AS record))
        RETURNING record.*
    )
    INSERT INTO telesto.partitions (queue_id, sender_id, partition_key, owner_id, lease_id, next_id, line, line_id,
                                    failed_by)
    SELECT removed.queue_id, removed.sender_id, removed.partition_key, removed.owner_id, removed.lease_id,
           removed.next_id, CASE removed.lease_id WHEN 0 THEN 2 ELSE 3 END, removed.queue_id, removed.failed_by
    FROM removed;
    GET DIAGNOSTICS freed = ROW_COUNT;
    SELECT back.queue_ids, back.receiver_ids INTO queue_ids, receiver_ids
    FROM telesto.return_leases(ARRAY[end_consumers.queue_id],
                               ARRAY(SELECT lease.ctid
                                     FROM (SELECT unnest(consumer_ids) AS consumer_id) AS ended
                                     CROSS JOIN LATERAL (SELECT lease.ctid FROM telesto.leases AS lease
                                                         WHERE lease.consumer_id = ended.consumer_id
                                                         FOR UPDATE SKIP LOCKED) AS lease),
                               counted, begun_ids, 'lost', 0) AS back;
    INSERT INTO telesto.ended_consumers (queue_id, consumer_id, counted)
    SELECT end_consumers.queue_id, ended.consumer_id, end_consumers.counted
    FROM (SELECT unnest(consumer_ids) AS consumer_id) AS ended
    CROSS JOIN LATERAL (SELECT FROM telesto.leases AS lease
                        WHERE lease.consumer_id = ended.consumer_id
                        LIMIT 1) AS lease
    ON CONFLICT DO NOTHING;
    IF freed > 0 THEN
        queue_ids := queue_ids || end_consumers.queue_id;
        receiver_ids := receiver_ids || 0::bigint;
    END IF;
END
$$;
