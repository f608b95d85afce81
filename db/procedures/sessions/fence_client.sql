-- Procedure:  fence_client
-- Purpose:    The fence of a single request, see fence_requests; also finds a number that was used before.
-- Returns:
--   smallint                NULL, BUSY (a takeover is under way), CLIENT_NOT_EXISTING, SESSION_FENCED
--                           or NUMBER_REPEATED
-- Errors:     invalid_transaction_state (25000) outside READ COMMITTED
-- Locks:      client (shared, try)
-- Tables:     clients (read), operations (read)
CREATE OR REPLACE FUNCTION telesto.fence_client(
    client_id bigint,  -- who asks
    session bigint,    -- the session
    number bigint      -- the request's number; 0 for a request without one
)
RETURNS smallint
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    current_session bigint;
BEGIN
    PERFORM telesto.require_read_committed();
    IF NOT pg_try_advisory_xact_lock_shared(telesto.client_lock_key(fence_client.client_id)) THEN
        RETURN :BUSY;
    END IF;
    SELECT client.session INTO current_session
    FROM telesto.clients AS client
    WHERE client.client_id = fence_client.client_id;
    IF current_session IS NULL THEN
        RETURN :CLIENT_NOT_EXISTING;
    ELSIF current_session <> fence_client.session THEN
        RETURN :SESSION_FENCED;
    END IF;
    PERFORM FROM telesto.operations AS operation
    WHERE operation.client_id = fence_client.client_id
      AND operation.session = fence_client.session
      AND operation.number = fence_client.number;
    RETURN CASE WHEN FOUND THEN :NUMBER_REPEATED END;
END
$$;
