-- Procedure:  open_session
-- Purpose:    The core of a takeover: ends the client's session and opens the next one, once no transaction
--             works for the old one, and restarts the retention clock of what was handed over and is
--             unconfirmed.
-- Locks:      client (exclusive, try)
-- Tables:     clients (read, update), deliveries (update)
CREATE OR REPLACE FUNCTION telesto.open_session(
    client_id bigint,    -- the client
    token bytea,         -- stands for the process that opens the session; NULL for none
    resume boolean,      -- only if the session now was opened with the same token, so that nobody else has seen, and
                         -- confirmed, what that one executed
    attempt bigint,      -- rises with the attempts of a token; NULL when the caller does not count
    process text,        -- the process that opens the session, for people; NULL when not known
    library text,        -- the name and version of its library; NULL when not known
    address text,        -- the address of its connection; NULL when not known
    OUT error smallint,  -- NULL, BUSY (a transaction of the client is still running), CLIENT_NOT_EXISTING or
                         -- SESSION_FENCED (not resumed, or an attempt that a later one has overtaken)
    OUT session bigint,  -- the new session
    OUT former jsonb     -- who had the session before, for people: process, library, address and since
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    IF NOT pg_try_advisory_xact_lock(telesto.client_lock_key(open_session.client_id)) THEN
        error := :BUSY;
        RETURN;
    END IF;
    SELECT jsonb_strip_nulls(jsonb_build_object('process', client.process, 'library', client.library,
                                                'address', client.address, 'since', client.session_at))
    INTO former
    FROM telesto.clients AS client
    WHERE client.client_id = open_session.client_id;
    UPDATE telesto.clients AS client
    SET session = client.session + 1, token = open_session.token, attempt = open_session.attempt,
        process = open_session.process, library = open_session.library, address = open_session.address,
        session_at = clock_timestamp(), seen_at = CASE WHEN client.temporary THEN clock_timestamp() END
    WHERE client.client_id = open_session.client_id
      AND (NOT resume OR client.token = open_session.token)
      AND (client.token = open_session.token AND open_session.attempt <= client.attempt) IS NOT TRUE
    RETURNING client.session INTO open_session.session;
    IF open_session.session IS NULL THEN
        PERFORM FROM telesto.clients AS client WHERE client.client_id = open_session.client_id;
        error := CASE WHEN FOUND THEN :SESSION_FENCED ELSE :CLIENT_NOT_EXISTING END;
        -- So that the answer waits for a synchronous standby, as the commits did by which the client is gone.
        PERFORM pg_logical_emit_message(true, 'telesto', '');
        RETURN;
    END IF;
    UPDATE telesto.deliveries AS delivery
    SET handed_over_at = clock_timestamp()
    WHERE delivery.client_id = open_session.client_id;
END
$$;
