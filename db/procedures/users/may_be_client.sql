-- Procedure:  may_be_client
-- Purpose:    Whether a user may take a client: its own, or one of nobody whose name its patterns match.
-- Tables:     clients, users (read)
-- Returns:
--   boolean  NULL when there is no such client
CREATE OR REPLACE FUNCTION telesto.may_be_client(
    wanted_id bigint,    -- the client
    asking_user bigint,  -- the user
    names text[]         -- the patterns of the names that its clients may have
)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    client record;
BEGIN
    SELECT row.user_id, row.name INTO client FROM telesto.clients AS row WHERE row.client_id = wanted_id;
    RETURN CASE WHEN client.user_id = asking_user THEN true
                WHEN EXISTS (SELECT FROM telesto.users AS owner WHERE owner.user_id = client.user_id) THEN false
                ELSE telesto.name_matches(names, client.name) END;
END
$$;
