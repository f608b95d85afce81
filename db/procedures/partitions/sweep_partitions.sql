-- Procedure:  sweep_partitions
-- Purpose:    Forgets partitions that have been without messages since the last turn and of which nothing is leased;
--             has partitions go on that can because what was leased of them is answered.
-- Locks:      queues' take locks (wait)
-- Tables:     jobs (read, insert, update), consumers, leases, keyed_messages (read), partitions, partition_states (insert,
--             delete)
CREATE OR REPLACE FUNCTION telesto.sweep_partitions(
    max_rows int,              -- at most this many partitions of each kind
    OUT done bigint,           -- how many partitions were forgotten
    OUT more boolean,          -- whether there is more to do at once
    OUT queue_ids bigint[],    -- the queues in which partitions go on
    OUT receiver_ids bigint[]  -- 0 for each
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- What stood in the line at the end of the last turn has been idle for at least a period.
    idle_since constant bigint := (SELECT job.position FROM telesto.jobs AS job WHERE job.job = 'partitions');
    -- Before that turn's own begin nothing is left, but what took long to commit: now and then all is looked at.
    idle_from constant bigint := CASE WHEN random() * 100 >= 1
                                      THEN (SELECT job.position FROM telesto.jobs AS job
                                            WHERE job.job = 'idle_partitions') END;
    newest constant bigint := (SELECT last_value FROM telesto.partition_versions);
    queues bigint[];
    last_place bigint;
    looked bigint;
    forgotten record;
    state telesto.partition_states;
    drained_queue bigint;
    at int;
BEGIN
    SELECT array_agg(DISTINCT record.queue_id) INTO queue_ids
    FROM (SELECT record.* FROM (VALUES (3), (6)) AS line (line)
          CROSS JOIN LATERAL (SELECT record.* FROM telesto.partitions AS record
                              WHERE record.line = line.line
                              ORDER BY record.line, record.line_id, record.place
                              LIMIT max_rows) AS record) AS record
    LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.leases AS lease
                       WHERE lease.consumer_id = record.owner_id AND lease.lease_id = record.lease_id
                       LIMIT 1) AS leased ON true
    WHERE leased.yes IS NULL;
    receiver_ids := array_fill(0::bigint, ARRAY[coalesce(cardinality(queue_ids), 0)]);

    done := 0;
    SELECT array_agg(DISTINCT record.queue_id ORDER BY record.queue_id), count(*), max(record.place)
    INTO queues, looked, last_place
    FROM (SELECT record.queue_id, record.place FROM telesto.partitions AS record
          WHERE record.line = 5 AND record.line_id = 0 AND record.place > coalesce(idle_from, 0)
            AND record.place <= idle_since
          ORDER BY record.place
          LIMIT max_rows) AS record;
    more := looked = max_rows;
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
    FROM (SELECT DISTINCT unnest(queues || queue_ids) AS queue_id ORDER BY 1) AS queue;
    FOREACH drained_queue IN ARRAY coalesce(queue_ids, '{}') LOOP
        state := telesto.partition_state(drained_queue);
        state := (telesto.drain_partitions(state, max_rows)).state;
        PERFORM telesto.next_partition_state(state);
    END LOOP;
    IF queues IS NOT NULL THEN
        FOR forgotten IN
            WITH record AS (
                SELECT record.*, leased.yes IS NULL AS free
                FROM (SELECT record.ctid AS partition_row, record.* FROM telesto.partitions AS record
                      WHERE record.line = 5 AND record.line_id = 0 AND record.place > coalesce(idle_from, 0)
                        AND record.place <= last_place
                        AND record.queue_id = ANY (queues)
                      ORDER BY record.place) AS record
                LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.leases AS lease
                                   WHERE lease.consumer_id = record.owner_id AND lease.lease_id = record.lease_id
                                   LIMIT 1) AS leased ON true
            ), removed AS (
                DELETE FROM telesto.partitions AS old
                WHERE old.ctid = ANY (ARRAY(SELECT record.partition_row FROM record))
            ), later AS (
                INSERT INTO telesto.partitions (queue_id, sender_id, partition_key, owner_id, lease_id, next_id, line,
                                                line_id)
                SELECT record.queue_id, record.sender_id, record.partition_key, record.owner_id, record.lease_id,
                       record.next_id, 5, 0
                FROM record
                WHERE NOT record.free
            )
            SELECT record.queue_id, array_agg(record.owner_id) AS owners
            FROM record
            WHERE record.free
            GROUP BY record.queue_id
        LOOP
            done := done + cardinality(forgotten.owners);
            state := telesto.partition_state(forgotten.queue_id);
            FOR i IN 1..cardinality(forgotten.owners) LOOP
                at := array_position(state.consumer_ids, forgotten.owners[i]);
                IF at IS NOT NULL THEN
                    state.counts[at] := greatest(0, state.counts[at] - 1);
                END IF;
            END LOOP;
            PERFORM telesto.next_partition_state(state);
        END LOOP;
    END IF;
    IF NOT more THEN
        UPDATE telesto.jobs AS job SET position = newest WHERE job.job = 'partitions';
        INSERT INTO telesto.jobs AS job (job, position) VALUES ('idle_partitions', idle_since)
        ON CONFLICT (job) DO UPDATE SET position = excluded.position;
    END IF;
END
$$;
