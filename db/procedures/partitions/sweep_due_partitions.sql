-- Procedure:  sweep_due_partitions
-- Purpose:    Has partitions go on whose first message was not due and is now.
-- Locks:      queues' take locks (wait)
-- Tables:     jobs (read, update), consumers, leases, keyed_messages (read), partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.sweep_due_partitions(
    max_rows int,              -- at most about this many partitions
    latest timestamptz,        -- the clock of this server was not beyond this, unless it was set; NULL when that is not
                               -- known
    OUT done bigint,           -- how many go on
    OUT more boolean,          -- whether there is more to do at once
    OUT queue_ids bigint[],    -- the queues in which some do
    OUT receiver_ids bigint[]  -- 0 for each
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    due constant timestamptz := least(clock_timestamp(), latest);
    due_place constant bigint := (extract(epoch FROM due) * 1e6)::bigint;
    looked_from constant bigint := (CASE WHEN telesto.looked_from('due_partitions', due) = '-infinity' THEN 0
                                         ELSE extract(epoch FROM telesto.looked_from('due_partitions', due)) * 1e6
                                         END)::bigint;
    last_place bigint;
    found record;
BEGIN
    SELECT array_agg(DISTINCT record.queue_id ORDER BY record.queue_id), count(*), max(record.place)
    INTO queue_ids, done, last_place
    FROM (SELECT record.queue_id, record.place FROM telesto.partitions AS record
          WHERE record.line = 4 AND record.line_id = 0 AND record.place > looked_from AND record.place <= due_place
          ORDER BY record.place
          LIMIT max_rows) AS record;
    more := done = max_rows;
    IF queue_ids IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
        FROM (SELECT unnest(queue_ids) AS queue_id) AS queue;
        SELECT array_agg(record.queue_id) AS queues, array_agg(record.sender_id) AS senders,
               array_agg(record.partition_key) AS keys, array_agg(record.next_id) AS next_ids
        INTO found
        FROM (SELECT record.* FROM telesto.partitions AS record
              WHERE record.line = 4 AND record.line_id = 0 AND record.place > looked_from
                AND record.place <= last_place AND record.queue_id = ANY (queue_ids)
              ORDER BY record.place) AS record;
        IF found.queues IS NOT NULL THEN
            PERFORM telesto.settle_partitions(found.queues, found.senders, found.keys, found.next_ids, false);
        END IF;
        receiver_ids := array_fill(0::bigint, ARRAY[cardinality(queue_ids)]);
    END IF;
    PERFORM telesto.look_ended('due_partitions',
                               CASE WHEN more THEN to_timestamp(last_place / 1e6) ELSE due END);
END
$$;
