-- Procedure:  ack_batch
-- Purpose:    Acknowledges leased messages for many requests, of many clients, in one transaction: they are done,
--             and what is to be kept of them moves into the history.
--             The first to lock a lease decides; one that is gone, or another client's, or that an application
--             acknowledges in a transaction that is not over, is answered LEASE_LOST.
-- Locks:      clients (shared, try), leases (shared, try), their rows (wait)
-- Tables:     clients (read), leases (delete), operations (insert, delete), deliveries (delete), history_calendar
--             (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.ack_batch(
    client_ids bigint[],        -- per request: who acknowledges
    sessions bigint[],          -- per request: the session
    numbers bigint[],           -- per request: its number; 0 leaves no record
    item_requests int[],        -- per message: its request, counted from 1
    consumer_ids bigint[],      -- per message: the consumer that got it
    lease_ids bigint[],         -- per message: the lease
    message_ids bigint[],       -- per message: its id
    confirm_clients bigint[],   -- per confirmed request: the client; only those with a request here count
    confirm_sessions bigint[],  -- per confirmed request: its session
    confirm_numbers bigint[],   -- per confirmed request: its number
    OUT errors smallint[]       -- NULL when all are done, else per message: NULL when done, BUSY (not executed, try
                                -- again), CLIENT_NOT_EXISTING, SESSION_FENCED, LEASE_LOST or NUMBER_REPEATED
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    passed bigint[];
    verdicts smallint[];
    repeated boolean[];
    done_items int[];
    lease_rows tid[];
BEGIN
    SELECT fence.passed, fence.errors INTO passed, verdicts
    FROM telesto.fence_requests(client_ids, sessions) AS fence;
    SELECT array_agg(recorded.yes IS NOT NULL)
    INTO repeated
    FROM (SELECT unnest(client_ids) AS client_id, unnest(sessions) AS session, unnest(numbers) AS number) AS request
    LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.operations AS operation
                       WHERE operation.client_id = request.client_id
                         AND operation.session = request.session
                         AND operation.number = request.number
                       LIMIT 1) AS recorded ON true;

    SELECT array_agg(item.i), array_agg(item.lease_row)
    INTO done_items, lease_rows
    FROM (SELECT min(wanted.i) AS i, lease.lease_row
          FROM (SELECT unnest(item_requests) AS request, unnest(consumer_ids) AS consumer_id,
                       unnest(lease_ids) AS lease_id, unnest(message_ids) AS message_id,
                       generate_series(1, cardinality(item_requests)) AS i) AS wanted
          CROSS JOIN LATERAL (SELECT lease.ctid AS lease_row FROM telesto.leases AS lease
                              WHERE lease.consumer_id = wanted.consumer_id
                                AND lease.lease_id = wanted.lease_id
                                AND lease.message_id = wanted.message_id
                                AND lease.client_id = client_ids[wanted.request]
                              LIMIT 1
                              FOR UPDATE SKIP LOCKED) AS lease
          WHERE (verdicts IS NULL OR verdicts[wanted.request] IS NULL) AND NOT repeated[wanted.request]
          GROUP BY lease.lease_row) AS item;
    IF coalesce(cardinality(done_items), 0) < cardinality(item_requests) THEN
        -- One that is just being touched is waited for, one that an application's open transaction has is not.
        SELECT done_items || array_agg(item.i), lease_rows || array_agg(item.lease_row)
        INTO done_items, lease_rows
        FROM (SELECT min(wanted.i) AS i, lease.lease_row
              FROM (SELECT unnest(item_requests) AS request, unnest(consumer_ids) AS consumer_id,
                           unnest(lease_ids) AS lease_id, unnest(message_ids) AS message_id,
                           generate_series(1, cardinality(item_requests)) AS i) AS wanted
              CROSS JOIN LATERAL (SELECT waited.lease_row
                                  FROM telesto.wait_for_lease(client_ids[wanted.request], wanted.consumer_id,
                                                              wanted.lease_id, wanted.message_id) AS waited
                                  OFFSET 0) AS lease
              WHERE NOT wanted.i = ANY (coalesce(done_items, '{}'))
                AND (verdicts IS NULL OR verdicts[wanted.request] IS NULL) AND NOT repeated[wanted.request]
                AND lease.lease_row IS NOT NULL AND NOT lease.lease_row = ANY (coalesce(lease_rows, '{}'))
              GROUP BY lease.lease_row) AS item;
    END IF;
    PERFORM telesto.end_leases(lease_rows);

    IF coalesce(cardinality(done_items), 0) < cardinality(item_requests) THEN
        SELECT array_agg(CASE WHEN verdicts[item_requests[item.i]] IS NOT NULL THEN verdicts[item_requests[item.i]]
                              WHEN repeated[item_requests[item.i]] THEN :NUMBER_REPEATED
                              WHEN done.yes IS NULL THEN :LEASE_LOST END ORDER BY item.i)
        INTO errors
        FROM generate_series(1, cardinality(item_requests)) AS item (i)
        LEFT JOIN (SELECT DISTINCT unnest(done_items) AS i, true AS yes) AS done ON done.i = item.i;
    END IF;

    INSERT INTO telesto.operations (client_id, session, number, method_id, related_ids, errors)
    SELECT client_ids[request.i], sessions[request.i], numbers[request.i], :ACK, request.message_ids, request.errors
    FROM (SELECT item.request AS i, array_agg(item.message_id ORDER BY item.i) AS message_ids,
                 CASE WHEN count(item.error) > 0 THEN array_agg(item.error ORDER BY item.i) END AS errors
          FROM unnest(item_requests, message_ids, errors) WITH ORDINALITY AS item (request, message_id, error, i)
          GROUP BY item.request
          HAVING bool_and(item.error IS NULL OR item.error = :LEASE_LOST)) AS request
    WHERE numbers[request.i] <> 0;
    PERFORM telesto.delete_confirmed(passed, confirm_clients, confirm_sessions, confirm_numbers, false);
END
$$;
