-- Procedure:  client_of
-- Purpose:    Finds the client of a name for the caller of a SQL procedure, or registers it, as declare_client says.
-- Returns:
--   bigint                  the client
-- Errors:     TL032 PERMISSION_DENIED, TL006 CLIENT_NAME_NOT_UNIQUE, TL012 INVALID_PARAMETER, TL023 OVERLOADED,
--             invalid_transaction_state (25000) outside READ COMMITTED for a new name
-- Tables:     clients (read, insert), users (read), audit (insert)
CREATE OR REPLACE FUNCTION telesto.client_of(
    caller telesto.users,  -- see sql_caller
    name text              -- the client
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    owner bigint;
    found_id bigint;
BEGIN
    SELECT client.client_id, client.user_id INTO found_id, owner
    FROM telesto.clients AS client
    WHERE client.name = client_of.name;
    IF found_id IS NOT NULL AND (caller.user_id IS NULL
                                 OR (owner = caller.user_id AND telesto.name_matches(caller.clients, name))) THEN
        RETURN found_id;
    END IF;
    owner := telesto.own_client(caller, name);
    IF found_id IS NOT NULL THEN
        PERFORM telesto.adopt_for_sql(caller, found_id);
        RETURN found_id;
    END IF;
    PERFORM telesto.require_name(name);
    LOOP
        SELECT client.client_id INTO found_id FROM telesto.clients AS client WHERE client.name = client_of.name;
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
