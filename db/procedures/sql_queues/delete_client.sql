-- Procedure:  delete_client
-- Purpose:    Deletes a client from SQL, as a part of the caller's transaction. What is handed over to it and
--             not confirmed goes back to its queues, marked redelivered. Messages addressed to it stay.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL005 CLIENT_NOT_EXISTING, TL035 TAKEOVER_BUSY (a request of the client is under way: try
--             again), invalid_transaction_state (25000) outside READ COMMITTED
-- Locks:      client (exclusive, try), queues' take locks, topics, subscriptions (wait), to the end of the
--             caller's transaction, which is limited from now on (see limit_transaction). Meant for autocommit or
--             short transactions
-- Tables:     installation (read), clients (delete), operations, deliveries (delete), messages, audit (insert), take_states,
--             receiver_states, topic_states (insert, delete), subscriptions, positions, publisher_states (delete)
CREATE OR REPLACE FUNCTION telesto.delete_client(
    client_id bigint  -- the client
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    caller constant telesto.users := telesto.sql_caller();
BEGIN
    PERFORM telesto.require_client(caller, client_id, false);
    PERFORM telesto.require_read_committed();
    IF NOT pg_try_advisory_xact_lock(telesto.client_lock_key(client_id)) THEN
        PERFORM telesto.raise_error(:TAKEOVER_BUSY, format('a request of client %s is under way', client_id));
    END IF;
    -- Again, for it may be gone.
    PERFORM telesto.require_client(caller, client_id, false);
    PERFORM telesto.remove_client(client_id);
    PERFORM telesto.limit_transaction();
    PERFORM telesto.audit_sql('client_deleted', jsonb_build_object('client_id', client_id));
END
$$;
