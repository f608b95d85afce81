-- Procedure:  request_id
-- Purpose:    Registers a client from SQL and gives it an id.
-- Returns:
--   bigint                  the client
-- Errors:     TL032 PERMISSION_DENIED,
--             TL006 CLIENT_NAME_NOT_UNIQUE, TL012 INVALID_PARAMETER
-- Tables:     clients (insert, read), audit (insert)
CREATE OR REPLACE FUNCTION telesto.request_id(
    name text,          -- unique name, 1 to 255 characters
    mode int DEFAULT 1  -- 1 FULL, 2 READ_ONLY
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    owner constant bigint := telesto.own_client(telesto.sql_caller(), name);
    registered record;
BEGIN
    PERFORM telesto.require_name(name);
    IF mode IS NULL OR mode NOT IN (1, 2) THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('mode %s is neither 1 (FULL) nor 2 (READ_ONLY)', mode));
    END IF;
    registered := telesto.register_client(name, mode::smallint, NULL, asking_user => owner);
    IF registered.error IS NOT NULL THEN
        PERFORM telesto.raise_error(:CLIENT_NAME_NOT_UNIQUE, format('there is a client of the name %L already', name));
    END IF;
    PERFORM telesto.audit_sql('client_registered', jsonb_build_object('client_id', registered.client_id,
                                                                      'client_name', name));
    RETURN registered.client_id;
END
$$;
