-- Procedure:  drain_partitions
-- Purpose:    Has partitions go on of which nothing is leased any more: those whose lease has ended to where they
--             belong, those that leave their owner to the line for a new one.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     consumers, leases, keyed_messages (read), partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.drain_partitions(
    INOUT state telesto.partition_states,  -- the new state
    max_rows int,                          -- at most this many of each kind are looked at
    OUT waiting boolean                    -- whether some still wait
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    drained record;
BEGIN
    SELECT array_agg(record.sender_id) FILTER (WHERE record.free) AS senders,
           array_agg(record.partition_key) FILTER (WHERE record.free) AS keys,
           array_agg(record.next_id) FILTER (WHERE record.free) AS next_ids,
           min(record.place) FILTER (WHERE NOT record.free) AS first_left, max(record.place) AS last
    INTO drained
    FROM (SELECT record.*, leased.yes IS NULL AS free
          FROM (SELECT record.* FROM telesto.partitions AS record
                WHERE record.line = 3 AND record.line_id = state.queue_id AND record.place >= state.draining_from
                ORDER BY record.place
                LIMIT max_rows) AS record
          LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.leases AS lease
                             WHERE lease.consumer_id = record.owner_id AND lease.lease_id = record.lease_id
                             LIMIT 1) AS leased ON true) AS record;
    state.draining_from := coalesce(drained.first_left, drained.last + 1, state.draining_from);
    waiting := drained.first_left IS NOT NULL;
    IF drained.senders IS NOT NULL THEN
        PERFORM telesto.settle_partitions(array_fill(state.queue_id, ARRAY[cardinality(drained.senders)]),
                                          drained.senders, drained.keys, drained.next_ids, false);
    END IF;

    WITH record AS (
        SELECT record.*, leased.yes IS NULL AS free
        FROM (SELECT record.ctid AS partition_row, record.* FROM telesto.partitions AS record
              WHERE record.line = 6 AND record.line_id = state.queue_id AND record.place >= state.leaving_from
              ORDER BY record.place
              LIMIT max_rows) AS record
        LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.leases AS lease
                           WHERE lease.consumer_id = record.owner_id AND lease.lease_id = record.lease_id
                           LIMIT 1) AS leased ON true
    ), removed AS (
        DELETE FROM telesto.partitions AS old
        WHERE old.ctid = ANY (ARRAY(SELECT record.partition_row FROM record WHERE record.free))
    ), freed AS (
        INSERT INTO telesto.partitions (queue_id, sender_id, partition_key, owner_id, lease_id, next_id, line, line_id)
        SELECT record.queue_id, record.sender_id, record.partition_key, 0, 0, record.next_id, 2, record.queue_id
        FROM record
        WHERE record.free
    )
    SELECT array_agg(record.sender_id) FILTER (WHERE record.free) AS senders,
           array_agg(record.partition_key) FILTER (WHERE record.free) AS keys,
           array_agg(record.next_id) FILTER (WHERE record.free) AS next_ids,
           min(record.place) FILTER (WHERE NOT record.free) AS first_left, max(record.place) AS last
    INTO drained
    FROM record;
    state.leaving_from := coalesce(drained.first_left, drained.last + 1, state.leaving_from);
    waiting := waiting OR drained.first_left IS NOT NULL;
    IF drained.senders IS NOT NULL THEN
        PERFORM telesto.settle_partitions(array_fill(state.queue_id, ARRAY[cardinality(drained.senders)]),
                                          drained.senders, drained.keys, drained.next_ids, false);
    END IF;
END
$$;
