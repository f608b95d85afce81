-- Procedure:  leave_partitions
-- Purpose:    Has partitions stand where they belong after messages of theirs were removed where they waited; what
--             would tell claims of these messages goes, too. No claim may come that would find nothing there.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     partition_arrivals (delete), consumers, leases, keyed_messages (read), partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.leave_partitions(
    from_queue bigint,    -- the queue
    sender_ids bigint[],  -- per message: who put it
    keys text[],          -- per message: the key of its partition
    message_ids bigint[]  -- per message: its id
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    PERFORM telesto.settle_partitions(array_fill(from_queue, ARRAY[cardinality(keys)]), sender_ids, keys, message_ids,
                                      false);
    DELETE FROM telesto.partition_arrivals AS arrival
    WHERE arrival.ctid = ANY (ARRAY(
        SELECT arrival.ctid
        FROM (SELECT unnest(message_ids) AS message_id) AS gone
        CROSS JOIN LATERAL (SELECT arrival.ctid FROM telesto.partition_arrivals AS arrival
                            WHERE arrival.queue_id = from_queue AND arrival.message_id = gone.message_id
                            LIMIT 1) AS arrival));
END
$$;
