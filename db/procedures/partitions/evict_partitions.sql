-- Procedure:  evict_partitions
-- Purpose:    Takes partitions from consumers that are to have none: those that are ready wait for a new owner; those
--             of which something is leased get nothing more until that is answered, and then wait for one.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     leases (read), partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.evict_partitions(
    INOUT state telesto.partition_states,  -- the new state
    absent_ids bigint[],                   -- the consumers that are to have none
    max_rows int,                          -- at most this many partitions
    OUT leaving boolean,                   -- whether some leave when what is leased of them is answered
    OUT more boolean                       -- whether there may be more
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    evicted record;
BEGIN
    WITH record AS (
        SELECT record.*, leased.yes IS NULL AS free
        FROM (SELECT record.*
              FROM (SELECT absent.consumer_id, array_position(state.consumer_ids, absent.consumer_id) AS at
                    FROM unnest(absent_ids) AS absent (consumer_id)) AS member
              CROSS JOIN LATERAL (SELECT record.ctid AS partition_row, record.* FROM telesto.partitions AS record
                                  WHERE record.line = 1 AND record.line_id = member.consumer_id
                                    AND record.place >= state.ready_from[member.at]
                                  ORDER BY record.place
                                  LIMIT max_rows) AS record
              LIMIT max_rows) AS record
        LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.leases AS lease
                           WHERE lease.consumer_id = record.owner_id AND lease.lease_id = record.lease_id
                           LIMIT 1) AS leased ON true
    ), removed AS (
        DELETE FROM telesto.partitions AS old
        WHERE old.ctid = ANY (ARRAY(SELECT record.partition_row FROM record))
    ), placed AS (
        INSERT INTO telesto.partitions (queue_id, sender_id, partition_key, owner_id, lease_id, next_id, line, line_id,
                                        failed_by)
        SELECT record.queue_id, record.sender_id, record.partition_key,
               CASE WHEN record.free THEN 0 ELSE record.owner_id END,
               CASE WHEN record.free THEN 0 ELSE record.lease_id END, record.next_id,
               CASE WHEN record.free THEN 2 ELSE 6 END, record.queue_id, record.failed_by
        FROM record
        ORDER BY record.place
    )
    SELECT array_agg(record.owner_id) AS owners, count(*) AS n, count(*) FILTER (WHERE NOT record.free) AS busy
    INTO evicted
    FROM record;
    leaving := evicted.busy > 0;
    more := evicted.n = max_rows;
    IF evicted.n > 0 THEN
        state.counts := ARRAY(
            SELECT member.count - (SELECT count(*) FROM unnest(evicted.owners) AS owner (consumer_id)
                                   WHERE owner.consumer_id = member.consumer_id)
            FROM (SELECT unnest(state.consumer_ids) AS consumer_id, unnest(state.counts) AS count,
                         generate_series(1, cardinality(state.counts)) AS i) AS member
            ORDER BY member.i);
    END IF;
END
$$;
