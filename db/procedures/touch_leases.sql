-- Procedure:  touch_leases
-- Purpose:    Begins the time of leases anew; one that is not the client's any more is answered LEASE_LOST.
-- Parameters:
--   client_id bigint        whose leases
--   session bigint          its session
--   consumer_ids bigint[]   per message: the consumer that got it
--   lease_ids bigint[]      per message: the lease
--   message_ids bigint[]    per message: its id
-- Returns:
--   error smallint          NULL, -1 (a takeover is under way: try again), CLIENT_NOT_EXISTING (5) or
--                           SESSION_FENCED (20)
--   errors smallint[]       per message: NULL or LEASE_LOST (27)
-- Errors:     none raised
-- Locks:      client (shared, try). Leases that another transaction ends are waited for
-- Tables:     clients, queues (read), leases (update)
CREATE OR REPLACE FUNCTION telesto.touch_leases(
    client_id bigint,
    session bigint,
    consumer_ids bigint[],
    lease_ids bigint[],
    message_ids bigint[],
    OUT error smallint,
    OUT errors smallint[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, telesto, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    touched int[];
    now constant timestamptz := clock_timestamp();
BEGIN
    PERFORM telesto.require_read_committed();
    error := telesto.fence_client(touch_leases.client_id, touch_leases.session, 0);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    WITH item AS (
        SELECT wanted.i, lease.ctid AS lease_row, queue.lease_ms
        FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(lease_ids) AS lease_id,
                     unnest(message_ids) AS message_id, generate_series(1, cardinality(consumer_ids)) AS i) AS wanted
        CROSS JOIN LATERAL (SELECT lease.ctid, lease.queue_id FROM telesto.leases AS lease
                            WHERE lease.consumer_id = wanted.consumer_id AND lease.lease_id = wanted.lease_id
                              AND lease.message_id = wanted.message_id
                              AND lease.client_id = touch_leases.client_id
                            LIMIT 1
                            FOR UPDATE) AS lease
        LEFT JOIN LATERAL (SELECT queue.lease_ms FROM telesto.queues AS queue
                           WHERE queue.queue_id = lease.queue_id
                           LIMIT 1) AS queue ON true
    ), renewed AS (
        UPDATE telesto.leases AS lease
        SET deadline = now + make_interval(secs => coalesce(item.lease_ms, 30000) / 1000.0)
        FROM item
        WHERE lease.ctid = item.lease_row
        RETURNING item.i
    )
    SELECT array_agg(renewed.i) INTO touched FROM renewed;
    errors := ARRAY(SELECT CASE WHEN item.i = ANY (touched) THEN NULL ELSE 27::smallint END
                    FROM generate_series(1, cardinality(message_ids)) AS item (i));
END
$$;
