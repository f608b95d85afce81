-- Procedure:  require_client
-- Purpose:    Refuses a call of a SQL user that names a client who does not exist or may not change anything. Clients
--             of others are to it as if they did not exist.
--             Takes no fence: the caller's transaction is the unit, not the client's session. A user that changes
--             something takes a client of nobody first, see client_of.
-- Errors:     TL005 CLIENT_NOT_EXISTING, TL013 CLIENT_MODE_PERMISSION_VIOLATION, TL032 PERMISSION_DENIED
-- Tables:     clients (read)
CREATE OR REPLACE FUNCTION telesto.require_client(
    caller telesto.users,  -- see sql_caller
    client_id bigint,      -- the client
    changing boolean       -- whether the call needs mode FULL
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    found_mode smallint;
    found_user bigint;
BEGIN
    SELECT client.mode, client.user_id INTO found_mode, found_user
    FROM telesto.clients AS client
    WHERE client.client_id = require_client.client_id;
    IF found_mode IS NULL OR (caller.user_id IS DISTINCT FROM found_user AND caller.user_id IS NOT NULL
                              AND telesto.may_be_client(client_id, caller.user_id, caller.clients) IS NOT TRUE) THEN
        PERFORM telesto.raise_error(:CLIENT_NOT_EXISTING, format('there is no client %s', coalesce(client_id::text, 'NULL')));
    ELSIF changing AND found_mode <> 1 THEN
        PERFORM telesto.raise_error(:CLIENT_MODE_PERMISSION_VIOLATION, format('client %s is READ_ONLY', client_id));
    ELSIF changing AND caller.user_id IS DISTINCT FROM found_user AND caller.user_id IS NOT NULL THEN
        PERFORM telesto.raise_error(:PERMISSION_DENIED, format(
            'client %s belongs to nobody; telesto.declare_client takes it for user %L', client_id, caller.name));
    END IF;
END
$$;
