-- Procedure:  declare_client
-- Purpose:    Finds the client of a name from SQL, or registers it, as a part of the caller's transaction. Opens no
--             session and fences no other.
-- Returns:
--   bigint                  the client
-- Errors:     TL032 PERMISSION_DENIED,
--             TL012 INVALID_PARAMETER, invalid_transaction_state (25000) outside READ COMMITTED for a new name
-- Tables:     clients (read, insert), audit (insert)
CREATE OR REPLACE FUNCTION telesto.declare_client(
    name text DEFAULT session_user  -- unique name, 1 to 255 characters; that of the database user unless given
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
    RETURN telesto.client_of(telesto.sql_caller(), name);
END
$$;
