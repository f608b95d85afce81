-- Procedure:  ack
-- Purpose:    Acknowledges a message that a consumer was given, as a part of the caller's transaction: when that
--             commits the message is done, together with whatever else the transaction has done; when it does not,
--             the message is leased as before. From this call on nobody else can get the message while the
--             transaction is open, even if the time of its lease is up meanwhile.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL012 INVALID_PARAMETER, TL027 LEASE_LOST, serialization_failure (40001: the lease was touched or
--             ended after the transaction's snapshot; not in READ COMMITTED)
-- Locks:      lease (wait), its row (wait)
-- Tables:     leases (delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.ack(
    consumer_id bigint,  -- the consumer that got it
    lease_id bigint,     -- its lease
    message_id bigint    -- the message
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    caller constant telesto.users := telesto.sql_caller();
    lease_row tid;
BEGIN
    IF consumer_id IS NULL OR lease_id IS NULL OR message_id IS NULL THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'consumer_id, lease_id and message_id must be given');
    END IF;
    -- The middlewares see by this lock that they must not wait for the row.
    PERFORM pg_advisory_xact_lock(telesto.lease_lock_key(message_id));
    -- What others have, or what it may not read any more, is to a user as if it were over.
    IF caller.user_id IS NULL
       OR EXISTS (SELECT FROM telesto.leases AS lease
                  JOIN telesto.queues AS queue ON queue.queue_id = lease.queue_id
                  WHERE lease.consumer_id = ack.consumer_id AND lease.lease_id = ack.lease_id
                    AND lease.message_id = ack.message_id AND telesto.name_matches(caller.get, queue.name)
                    AND telesto.may_be_client(lease.client_id, caller.user_id, caller.clients)) THEN
        SELECT lease.ctid INTO lease_row
        FROM telesto.leases AS lease
        WHERE lease.consumer_id = ack.consumer_id AND lease.lease_id = ack.lease_id AND lease.message_id = ack.message_id
        LIMIT 1
        FOR UPDATE;
    END IF;
    IF lease_row IS NULL THEN
        PERFORM telesto.raise_error(:LEASE_LOST, format('message %s belongs to somebody else by now, or is acknowledged '
                                               'already: lease %s of consumer %s is over',
                                               message_id, lease_id, consumer_id));
    END IF;
    PERFORM telesto.end_leases(ARRAY[lease_row]);
END
$$;
