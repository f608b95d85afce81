-- Procedure:  adopt_for_sql
-- Purpose:    Gives a client of nobody, as which the caller of a SQL procedure puts, to its user.
-- Errors:     TL023 OVERLOADED, TL035 TAKEOVER_BUSY, invalid_transaction_state (25000) outside READ COMMITTED
-- Locks:      client (exclusive, try), and those of adopt_client, to the end of the caller's transaction, which is limited
--             from now on where queues wait for it (see limit_transaction)
-- Tables:     those of adopt_client
CREATE OR REPLACE FUNCTION telesto.adopt_for_sql(
    caller telesto.users,  -- see sql_caller
    client_id bigint       -- the client
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM telesto.require_read_committed();
    IF NOT pg_try_advisory_xact_lock(telesto.client_lock_key(client_id)) THEN
        PERFORM telesto.raise_error(:TAKEOVER_BUSY, format('a request of client %s is under way', client_id));
    END IF;
    -- Again, for another user may have taken it.
    IF telesto.may_be_client(client_id, caller.user_id, caller.clients) IS NOT TRUE THEN
        PERFORM telesto.raise_error(:CLIENT_NOT_EXISTING, format('there is no client %s', client_id));
    END IF;
    IF (telesto.adopt_client(client_id, caller.user_id, caller.get)).queue_ids IS NOT NULL THEN
        PERFORM telesto.limit_transaction();
    END IF;
END
$$;
