-- Procedure:  touch_leases
-- Purpose:    Begins the time of leases anew; one that is not the client's any more is answered LEASE_LOST. One that
--             an application acknowledges in a transaction that is not over stays as it is: nobody can get it.
-- Locks:      client (shared, try), leases (shared, try), their rows (wait)
-- Tables:     clients, queues (read), leases (update)
CREATE OR REPLACE FUNCTION telesto.touch_leases(
    client_id bigint,       -- whose leases
    session bigint,         -- its session
    consumer_ids bigint[],  -- per message: the consumer that got it
    lease_ids bigint[],     -- per message: the lease
    message_ids bigint[],   -- per message: its id
    OUT error smallint,     -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING or SESSION_FENCED
    OUT errors smallint[]   -- per message: NULL or LEASE_LOST
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    kept int[];
    lease_rows tid[];
    now constant timestamptz := clock_timestamp();
BEGIN
    error := telesto.fence_client(touch_leases.client_id, touch_leases.session, 0);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(wanted.i), array_agg(lease.lease_row)
    INTO kept, lease_rows
    FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(lease_ids) AS lease_id,
                 unnest(message_ids) AS message_id, generate_series(1, cardinality(consumer_ids)) AS i) AS wanted
    CROSS JOIN LATERAL (SELECT lease.ctid AS lease_row FROM telesto.leases AS lease
                        WHERE lease.consumer_id = wanted.consumer_id AND lease.lease_id = wanted.lease_id
                          AND lease.message_id = wanted.message_id
                          AND lease.client_id = touch_leases.client_id
                        LIMIT 1
                        FOR UPDATE SKIP LOCKED) AS lease;
    IF coalesce(cardinality(kept), 0) < cardinality(message_ids) THEN
        SELECT kept || array_agg(wanted.i), lease_rows || array_agg(lease.lease_row)
        INTO kept, lease_rows
        FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(lease_ids) AS lease_id,
                     unnest(message_ids) AS message_id, generate_series(1, cardinality(consumer_ids)) AS i) AS wanted
        CROSS JOIN LATERAL (SELECT waited.* FROM telesto.wait_for_lease(touch_leases.client_id, wanted.consumer_id,
                                                                        wanted.lease_id, wanted.message_id) AS waited
                            OFFSET 0) AS lease
        WHERE NOT wanted.i = ANY (coalesce(kept, '{}')) AND (lease.held OR lease.lease_row IS NOT NULL);
    END IF;
    UPDATE telesto.leases AS lease
    SET deadline = now + make_interval(secs => coalesce((SELECT queue.lease_ms FROM telesto.queues AS queue
                                                         WHERE queue.queue_id = lease.queue_id
                                                         LIMIT 1), 30000) / 1000.0)
    WHERE lease.ctid = ANY (lease_rows);
    errors := ARRAY(SELECT CASE WHEN item.i = ANY (kept) THEN NULL ELSE :LEASE_LOST::smallint END
                    FROM generate_series(1, cardinality(message_ids)) AS item (i));
END
$$;
