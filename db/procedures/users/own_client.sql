-- Procedure:  own_client
-- Purpose:    The user to whom a client belongs that the caller of a SQL procedure registers or uses by a name.
-- Returns:
--   bigint  the user; NULL for nobody
-- Errors:     TL006 CLIENT_NAME_NOT_UNIQUE (it belongs to another user), TL032 PERMISSION_DENIED
-- Tables:     users, clients (read)
CREATE OR REPLACE FUNCTION telesto.own_client(
    caller telesto.users,  -- see sql_caller
    name text              -- the client
)
RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_variable
BEGIN
    IF caller.user_id IS NULL THEN
        RETURN NULL;
    ELSIF NOT telesto.name_matches(caller.clients, name) THEN
        PERFORM telesto.raise_error(:PERMISSION_DENIED, format('user %L may have no client named %L', caller.name, name));
    ELSIF EXISTS (SELECT FROM telesto.clients AS client
                  JOIN telesto.users AS owner ON owner.user_id = client.user_id
                  WHERE client.name = own_client.name AND owner.user_id <> caller.user_id) THEN
        PERFORM telesto.raise_error(:CLIENT_NAME_NOT_UNIQUE, format('there is a client of the name %L already', name));
    END IF;
    RETURN caller.user_id;
END
$$;
