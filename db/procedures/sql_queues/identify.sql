-- Procedure:  identify
-- Purpose:    Tells a SQL user who a client is. Unlike identify_client it opens no session and fences no other.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL005 CLIENT_NOT_EXISTING
-- Tables:     clients (read)
CREATE OR REPLACE FUNCTION telesto.identify(
    client_id bigint,              -- the client
    OUT name text,                 -- its name
    OUT mode int,                  -- 1 FULL, 2 READ_ONLY
    OUT registered_at timestamptz  -- since when it exists
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    PERFORM telesto.require_client(telesto.sql_caller(), client_id, false);
    SELECT client.name, client.mode, client.registered_at
    INTO identify.name, identify.mode, identify.registered_at
    FROM telesto.clients AS client
    WHERE client.client_id = identify.client_id;
END
$$;
