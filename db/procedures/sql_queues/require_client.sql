-- Procedure:  require_client
-- Purpose:    Refuses a call of a SQL user that names a client who does not exist or may not change anything. Clients
--             of others are to it as if they did not exist.
--             Takes no fence: the caller's transaction is the unit, not the client's session.
-- Returns:
--   users  the caller's user, as sql_caller returns it
-- Errors:     TL005 CLIENT_NOT_EXISTING, TL013 CLIENT_MODE_PERMISSION_VIOLATION
-- Tables:     clients (read)
CREATE OR REPLACE FUNCTION telesto.require_client(
    client_id bigint,  -- the client
    changing boolean   -- whether the call needs mode FULL
)
RETURNS telesto.users
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    caller constant telesto.users := telesto.sql_caller();
    found_mode smallint;
BEGIN
    SELECT client.mode INTO found_mode
    FROM telesto.clients AS client
    WHERE client.client_id = require_client.client_id;
    IF found_mode IS NULL OR (caller.user_id IS NOT NULL
                              AND telesto.may_be_client(client_id, caller.user_id, caller.clients) IS NOT TRUE) THEN
        PERFORM telesto.raise_error(:CLIENT_NOT_EXISTING, format('there is no client %s', coalesce(client_id::text, 'NULL')));
    ELSIF changing AND found_mode <> 1 THEN
        PERFORM telesto.raise_error(:CLIENT_MODE_PERMISSION_VIOLATION, format('client %s is READ_ONLY', client_id));
    END IF;
    RETURN caller;
END
$$;
