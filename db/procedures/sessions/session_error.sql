-- Procedure:  session_error
-- Purpose:    Whether a session is its client's current one, as of now and without a lock. For pages of what a client
--             has not confirmed: the transaction writes, so that its answer waits for a synchronous standby, as the
--             commits did that it shows.
-- Returns:
--   smallint                NULL, CLIENT_NOT_EXISTING or SESSION_FENCED
-- Errors:     invalid_transaction_state (25000) outside READ COMMITTED
-- Tables:     clients (read)
CREATE OR REPLACE FUNCTION telesto.session_error(
    client_id bigint,  -- the client
    session bigint     -- the session
)
RETURNS smallint
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    current_session bigint;
BEGIN
    PERFORM telesto.require_read_committed();
    PERFORM pg_logical_emit_message(true, 'telesto', '');
    SELECT client.session INTO current_session
    FROM telesto.clients AS client
    WHERE client.client_id = session_error.client_id;
    RETURN CASE WHEN current_session IS NULL THEN :CLIENT_NOT_EXISTING
                WHEN current_session <> session_error.session THEN :SESSION_FENCED END;
END
$$;
