-- Procedure:  sql_caller
-- Purpose:    The user that the caller of a SQL procedure is: that of its login role, whatever SET ROLE says.
--             Administrators may do everything; of the roles that are no user, middlewares, the schema's owner and its
--             members, and all while there are no users. Others may do nothing.
-- Returns:
--   users  the user; NULL for a caller who may do everything
-- Errors:     TL032 PERMISSION_DENIED
-- Tables:     users, sql_users (read)
CREATE OR REPLACE FUNCTION telesto.sql_caller()
RETURNS telesto.users
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    caller telesto.users;
BEGIN
    IF NOT EXISTS (SELECT FROM telesto.users) THEN
        RETURN NULL;
    END IF;
    SELECT found_user.* INTO caller
    FROM telesto.sql_users AS mapped
    JOIN telesto.users AS found_user ON found_user.user_id = mapped.user_id
    WHERE mapped.role_name = session_user AND found_user.enabled;
    IF caller.administrator THEN
        RETURN NULL;
    ELSIF caller.user_id IS NOT NULL THEN
        RETURN caller;
    ELSIF EXISTS (SELECT FROM pg_namespace AS schema
                  WHERE schema.nspname = 'telesto' AND pg_has_role(session_user, schema.nspowner, 'MEMBER'))
       OR EXISTS (SELECT FROM pg_roles AS role
                  WHERE role.rolname = 'telesto_middleware' AND pg_has_role(session_user, role.oid, 'MEMBER')) THEN
        RETURN NULL;
    END IF;
    PERFORM telesto.raise_error(:PERMISSION_DENIED, format('role %I is no user of Telesto that is enabled', session_user));
END
$$;
