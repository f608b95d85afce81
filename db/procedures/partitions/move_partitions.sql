-- Procedure:  move_partitions
-- Purpose:    Evens out the load: of the consumer with the most partitions, some that are ready go to the one with
--             the fewest; those of which something is leased once that is answered, getting nothing more until then. One
--             whose first message failed with that consumer stays.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     leases (read), partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.move_partitions(
    INOUT state telesto.partition_states,  -- the new state
    ranks int[],                           -- per consumer of the state: who comes first among those with as many; NULL
                                           -- for one that takes no part
    max_rows int,                          -- at most this many partitions
    OUT given bigint,                      -- the consumer that got some; NULL when none did
    OUT leaving boolean                    -- whether some leave when what is leased of them is answered
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    most int;
    least_busy int;
    moved int;
    drained int;
BEGIN
    leaving := false;
    SELECT member.at INTO most
    FROM (SELECT generate_series(1, cardinality(state.counts)) AS at, unnest(state.counts) AS count,
                 unnest(ranks) AS rank) AS member
    WHERE member.rank IS NOT NULL
    ORDER BY member.count DESC, member.at
    LIMIT 1;
    SELECT member.at INTO least_busy
    FROM (SELECT generate_series(1, cardinality(state.counts)) AS at, unnest(state.counts) AS count,
                 unnest(ranks) AS rank) AS member
    WHERE member.rank IS NOT NULL
    ORDER BY member.count, member.rank
    LIMIT 1;
    IF most IS NULL OR state.counts[most] - state.counts[least_busy] < 2 THEN
        RETURN;
    END IF;
    WITH record AS (
        SELECT record.*, leased.yes IS NULL AS free
        FROM (SELECT record.ctid AS partition_row, record.* FROM telesto.partitions AS record
              WHERE record.line = 1 AND record.line_id = state.consumer_ids[most]
                AND record.place >= state.ready_from[most] AND record.failed_by <> state.consumer_ids[least_busy]
              ORDER BY record.place
              LIMIT least(max_rows, (state.counts[most] - state.counts[least_busy]) / 2)) AS record
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
               CASE WHEN record.free THEN state.consumer_ids[least_busy] ELSE record.owner_id END,
               CASE WHEN record.free THEN 0 ELSE record.lease_id END, record.next_id,
               CASE WHEN record.free THEN 1 ELSE 6 END,
               CASE WHEN record.free THEN state.consumer_ids[least_busy] ELSE record.queue_id END, record.failed_by
        FROM record
        ORDER BY record.place
    )
    SELECT count(*) FILTER (WHERE record.free), count(*) FILTER (WHERE NOT record.free) INTO moved, drained
    FROM record;
    state.counts[most] := state.counts[most] - moved - drained;
    state.counts[least_busy] := state.counts[least_busy] + moved;
    given := CASE WHEN moved > 0 THEN state.consumer_ids[least_busy] END;
    leaving := drained > 0;
END
$$;
