-- Procedure:  get_client_id
-- Purpose:    Finds a client by its name. Opens no session and fences no other.
-- Errors:     TL032 PERMISSION_DENIED
-- Tables:     clients (read)
CREATE OR REPLACE FUNCTION telesto.get_client_id(
    name text,            -- the name
    OUT error smallint,   -- NULL or CLIENT_NOT_EXISTING
    OUT client_id bigint  -- the client
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    caller constant telesto.users := telesto.sql_caller();
BEGIN
    SELECT client.client_id INTO get_client_id.client_id
    FROM telesto.clients AS client
    WHERE client.name = get_client_id.name
      AND (caller.user_id IS NULL OR caller.monitor
           OR telesto.may_be_client(client.client_id, caller.user_id, caller.clients));
    error := CASE WHEN NOT FOUND THEN :CLIENT_NOT_EXISTING END;
END
$$;
