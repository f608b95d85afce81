-- Procedure:  wait_for_lease
-- Purpose:    Locks a lease that another transaction had locked a moment ago, unless that is an application's own,
--             which may stay open for long and is not waited for.
-- Locks:      lease (shared, try), its row (wait)
-- Tables:     leases (lock)
CREATE OR REPLACE FUNCTION telesto.wait_for_lease(
    client_id bigint,    -- whose lease
    consumer_id bigint,  -- the consumer that got it
    lease_id bigint,     -- the lease
    message_id bigint,   -- the message
    OUT lease_row tid,   -- where it is now; NULL when it is not the client's any more, or held
    OUT held boolean     -- whether an application acknowledges it, in a transaction that is not over
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
BEGIN
    held := false;
    PERFORM FROM telesto.leases AS lease
    WHERE lease.consumer_id = wait_for_lease.consumer_id AND lease.lease_id = wait_for_lease.lease_id
      AND lease.message_id = wait_for_lease.message_id AND lease.client_id = wait_for_lease.client_id
    LIMIT 1;
    IF NOT found THEN
        RETURN;
    END IF;
    IF NOT pg_try_advisory_xact_lock_shared(telesto.lease_lock_key(message_id)) THEN
        held := true;
        RETURN;
    END IF;
    SELECT lease.ctid INTO lease_row
    FROM telesto.leases AS lease
    WHERE lease.consumer_id = wait_for_lease.consumer_id AND lease.lease_id = wait_for_lease.lease_id
      AND lease.message_id = wait_for_lease.message_id AND lease.client_id = wait_for_lease.client_id
    LIMIT 1
    FOR UPDATE;
END
$$;
