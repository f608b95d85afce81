-- Procedure:  get_sessions
-- Purpose:    Which processes have clients now, for people: those that have taken them over from others.
-- Tables:     clients (read)
CREATE OR REPLACE FUNCTION telesto.get_sessions(
    client_ids bigint[]  -- the clients
)
RETURNS TABLE (
    client_id bigint,    -- the client; one that does not exist has no row
    process text,        -- the process, as it calls itself; NULL when not known
    library text,        -- the name and version of its library; NULL when not known
    address text,        -- the address of its connection; NULL when not known
    since timestamptz    -- when it opened the session
)
LANGUAGE sql STABLE SECURITY DEFINER
AS $$
    SELECT client.client_id, client.process, client.library, client.address, client.session_at
    FROM telesto.clients AS client
    WHERE client.client_id = ANY (client_ids)
$$;
