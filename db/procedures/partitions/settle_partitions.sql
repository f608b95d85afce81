-- Procedure:  settle_partitions
-- Purpose:    Has partitions stand in the line that they belong in, after something has happened to them: messages
--             came, or came back, their time came, or what was leased was answered. One that is to leave its owner
--             stays where it is; see move_partitions. One whose first message is not for its owner any more, since it
--             failed there, waits for a new one; until it has one it is counted for the old one.
-- Locks:      none; the caller holds the queues' take locks
-- Tables:     consumers, leases, keyed_messages (read), partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.settle_partitions(
    queue_ids bigint[],   -- per partition: its queue; a partition may be named several times
    sender_ids bigint[],  -- per partition: who puts into it
    keys text[],          -- per partition: its key
    first_ids bigint[],   -- per partition: a message that came to it, or came back
    ending boolean        -- whether its lease has ended: nothing is leased before what is left of it is answered
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    now constant timestamptz := clock_timestamp();
    old_rows tid[];
BEGIN
    WITH judged AS (
        SELECT wanted.queue_id, wanted.sender_id, wanted.partition_key, record.partition_row,
               coalesce(record.line, 5) AS line, coalesce(record.owner_id, 0) AS owner_id,
               coalesce(record.lease_id, 0) AS lease_id,
               least(record.next_id, wanted.first_id) AS next_id, record.place,
               leased.yes IS NOT NULL AS leased, owner.yes IS NOT NULL AS owned, head.message_id AS head_id,
               head.due_at, coalesce(head.failed_by, 0) AS failed_by
        FROM (SELECT every.queue_id, every.sender_id, every.partition_key, min(every.first_id) AS first_id
              FROM (SELECT unnest(queue_ids) AS queue_id, unnest(sender_ids) AS sender_id,
                           unnest(keys) AS partition_key, unnest(first_ids) AS first_id) AS every
              GROUP BY every.queue_id, every.sender_id, every.partition_key) AS wanted
        LEFT JOIN LATERAL (SELECT record.ctid AS partition_row, record.* FROM telesto.partitions AS record
                           WHERE record.queue_id = wanted.queue_id AND record.sender_id = wanted.sender_id
                             AND record.partition_key = wanted.partition_key
                           ORDER BY record.version DESC
                           LIMIT 1) AS record ON true
        LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.leases AS lease
                           WHERE lease.consumer_id = record.owner_id AND lease.lease_id = record.lease_id
                           LIMIT 1) AS leased ON true
        LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.consumers AS owner
                           WHERE owner.queue_id = wanted.queue_id AND owner.consumer_id = record.owner_id
                           LIMIT 1) AS owner ON true
        LEFT JOIN LATERAL (SELECT head.message_id, head.due_at, head.failed_by FROM telesto.keyed_messages AS head
                           WHERE head.queue_id = wanted.queue_id AND head.sender_id = wanted.sender_id
                             AND head.partition_key = wanted.partition_key
                             AND head.message_id >= least(record.next_id, wanted.first_id)
                           ORDER BY head.message_id
                           LIMIT 1) AS head ON true
    ), placed AS (
        SELECT judged.*,
               CASE WHEN judged.line = 6 AND judged.owned THEN 6
                    WHEN judged.leased AND (ending OR judged.line = 3 OR NOT judged.owned
                                            OR judged.failed_by = judged.owner_id) THEN 3
                    WHEN judged.head_id IS NULL THEN 5
                    WHEN judged.due_at > now THEN 4
                    WHEN judged.owned AND judged.failed_by <> judged.owner_id THEN 1
                    ELSE 2 END AS new_line
        FROM judged
    ), inserted AS (
        INSERT INTO telesto.partitions (queue_id, sender_id, partition_key, owner_id, lease_id, next_id, line, line_id,
                                        failed_by, place)
        SELECT placed.queue_id, placed.sender_id, placed.partition_key,
               CASE WHEN placed.owned OR placed.leased THEN placed.owner_id ELSE 0 END,
               CASE WHEN placed.leased THEN placed.lease_id ELSE 0 END,
               coalesce(placed.head_id, placed.next_id), placed.new_line,
               CASE placed.new_line WHEN 1 THEN placed.owner_id WHEN 2 THEN placed.queue_id WHEN 3 THEN placed.queue_id
                                    WHEN 6 THEN placed.queue_id ELSE 0 END,
               placed.failed_by,
               CASE WHEN placed.new_line = 4 THEN (extract(epoch FROM placed.due_at) * 1e6)::bigint
                    -- One that goes on waiting for its turn keeps it.
                    WHEN placed.new_line = placed.line AND placed.new_line <> 5 THEN placed.place
                    ELSE nextval('telesto.partition_versions') END
        FROM placed
    )
    SELECT array_agg(placed.partition_row) FILTER (WHERE placed.partition_row IS NOT NULL) INTO old_rows FROM placed;
    DELETE FROM telesto.partitions AS record WHERE record.ctid = ANY (old_rows);
END
$$;
