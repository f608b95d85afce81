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
#variable_conflict use_variable
DECLARE
    owner constant bigint := telesto.own_client(name);
    found_id bigint;
BEGIN
    PERFORM telesto.require_name(name);
    LOOP
        SELECT client.client_id INTO found_id FROM telesto.clients AS client WHERE client.name = declare_client.name;
        EXIT WHEN found_id IS NOT NULL;
        found_id := (telesto.register_client(name, 1::smallint, NULL, asking_user => owner)).client_id;
        IF found_id IS NOT NULL THEN
            PERFORM telesto.audit_sql('client_registered', jsonb_build_object('client_id', found_id, 'client_name', name));
            EXIT;
        END IF;
        -- Another transaction has registered it since; the next statement sees it.
    END LOOP;
    RETURN found_id;
END
$$;
