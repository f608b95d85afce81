-- Procedure:  keep_leases
-- Purpose:    Has leases hold on that a living consumer has: those that wait there to be begun, from now on; those that the
--             application was given, from when it was. Notes which were begun.
-- Returns:
--   smallint[]              per message: NULL, BUSY (somebody else has the row now: try again) or LEASE_LOST
-- Locks:      the leases' rows (try)
-- Tables:     queues (read), leases (update)
CREATE OR REPLACE FUNCTION telesto.keep_leases(
    consumer_ids bigint[],  -- per message: the consumer that got it
    lease_ids bigint[],     -- per message: the lease
    message_ids bigint[],   -- per message: its id
    begun_ms bigint[]       -- per message: for how long it has been begun, in milliseconds; NULL for one that waits
)
RETURNS smallint[]
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    kept int[];
    lease_rows tid[];
    now constant timestamptz := clock_timestamp();
BEGIN
    PERFORM telesto.require_read_committed();
    SELECT array_agg(wanted.i), array_agg(lease.lease_row)
    INTO kept, lease_rows
    FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(lease_ids) AS lease_id,
                 unnest(message_ids) AS message_id, generate_series(1, cardinality(consumer_ids)) AS i) AS wanted
    CROSS JOIN LATERAL (SELECT lease.ctid AS lease_row FROM telesto.leases AS lease
                        WHERE lease.consumer_id = wanted.consumer_id AND lease.lease_id = wanted.lease_id
                          AND lease.message_id = wanted.message_id
                        LIMIT 1
                        FOR UPDATE SKIP LOCKED) AS lease;
    UPDATE telesto.leases AS lease
    SET deadline = greatest(lease.deadline,
                            now + make_interval(secs => (coalesce((SELECT queue.lease_ms FROM telesto.queues AS queue
                                                                   WHERE queue.queue_id = lease.queue_id
                                                                   LIMIT 1), 30000)
                                                         - coalesce(begun_ms[pick.i], 0)) / 1000.0)),
        begun = lease.begun OR begun_ms[pick.i] IS NOT NULL
    FROM (SELECT unnest(kept) AS i, unnest(lease_rows) AS lease_row) AS pick
    WHERE lease.ctid = pick.lease_row;
    RETURN ARRAY(SELECT CASE WHEN wanted.i = ANY (kept) THEN NULL
                             WHEN lease.yes IS NULL THEN :LEASE_LOST::smallint
                             ELSE :BUSY::smallint END
                 FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(lease_ids) AS lease_id,
                              unnest(message_ids) AS message_id,
                              generate_series(1, cardinality(consumer_ids)) AS i) AS wanted
                 LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.leases AS lease
                                    WHERE lease.consumer_id = wanted.consumer_id AND lease.lease_id = wanted.lease_id
                                      AND lease.message_id = wanted.message_id
                                    LIMIT 1) AS lease ON true
                 ORDER BY wanted.i);
END
$$;
