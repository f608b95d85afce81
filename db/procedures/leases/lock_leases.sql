-- Procedure:  lock_leases
-- Purpose:    Locks the queues of leased messages, and then those of the leases that are still there.
-- Locks:      queues' take locks (wait), the leases' rows. Leases that another transaction ends are left to it
-- Tables:     leases (read)
CREATE OR REPLACE FUNCTION telesto.lock_leases(
    consumer_ids bigint[],  -- per message: the consumer that got it
    lease_ids bigint[],     -- per message: the lease
    message_ids bigint[],   -- per message: its id
    of_client bigint,       -- only leases of this client; NULL for those of all
    OUT queues bigint[],    -- the queues, sorted
    OUT lease_rows tid[]    -- per message: where its lease is; NULL when it is not there, or not the client's
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    queues := ARRAY(SELECT DISTINCT lease.queue_id
                    FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(lease_ids) AS lease_id,
                                 unnest(message_ids) AS message_id) AS item
                    CROSS JOIN LATERAL (SELECT lease.queue_id FROM telesto.leases AS lease
                                        WHERE lease.consumer_id = item.consumer_id AND lease.lease_id = item.lease_id
                                          AND lease.message_id = item.message_id
                                        LIMIT 1) AS lease
                    ORDER BY lease.queue_id);
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
    FROM (SELECT unnest(queues) AS queue_id) AS queue;
    -- By key and not by place: they may have been ended while the locks were waited for.
    lease_rows := ARRAY(SELECT lease.lease_row
                        FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(lease_ids) AS lease_id,
                                     unnest(message_ids) AS message_id) AS item
                        LEFT JOIN LATERAL (SELECT lease.ctid AS lease_row FROM telesto.leases AS lease
                                           WHERE lease.consumer_id = item.consumer_id
                                             AND lease.lease_id = item.lease_id
                                             AND lease.message_id = item.message_id
                                             AND (of_client IS NULL OR lease.client_id = of_client)
                                             AND lease.queue_id = ANY (queues)
                                           LIMIT 1
                                           FOR UPDATE SKIP LOCKED) AS lease ON true);
END
$$;
