-- Procedure:  register_client
-- Purpose:    Creates a client with its first session. Repeated with the token of its session, it opens a new
--             session of the same client, under the same rules as identify_client.
-- Errors:     QUOTA_EXCEEDED, check_violation for a name, mode or token out of range
-- Locks:      client (exclusive, try) when it exists
-- Tables:     clients (insert, read, update), deliveries (update), installation (read)
CREATE OR REPLACE FUNCTION telesto.register_client(
    name text,                    -- unique name, 1 to 255 characters
    mode smallint,                -- 1 FULL, 2 READ_ONLY
    token bytea,                  -- random bytes of the caller's choice; NULL never matches
    attempt bigint DEFAULT NULL,  -- rises with the attempts of a token; NULL when the caller does not count
    temporary boolean DEFAULT false,  -- it is deleted when its connection is not seen any more
    process text DEFAULT NULL,    -- the process that registers it, for people
    library text DEFAULT NULL,    -- the name and version of its library
    address text DEFAULT NULL,    -- the address of its connection
    asking_user bigint DEFAULT NULL,  -- the user to whom it is to belong; NULL for nobody
    OUT error smallint,           -- NULL, BUSY (the client's row is in use or just gone: try again),
                                  -- CLIENT_NAME_NOT_UNIQUE, CLIENT_MODE_PERMISSION_VIOLATION (repeated with another
                                  -- mode) or SESSION_FENCED (a later attempt was executed)
    OUT client_id bigint,         -- the client
    OUT session bigint,           -- its new session
    OUT incarnation text          -- identifies this database
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    existing_id bigint;
    same_token boolean;
    same_mode boolean;
    overtaken boolean;
BEGIN
    PERFORM telesto.require_read_committed();
    incarnation := telesto.get_incarnation();
    IF asking_user IS NOT NULL
       AND NOT EXISTS (SELECT FROM telesto.clients AS client WHERE client.name = register_client.name) THEN
        PERFORM telesto.require_quota(asking_user, 'clients');
    END IF;
    INSERT INTO telesto.clients AS client (client_id, session, mode, name, token, attempt, temporary, seen_at, process,
                                           library, address, session_at, user_id)
    VALUES (nextval('telesto.client_ids'), 1, register_client.mode, register_client.name, register_client.token,
            register_client.attempt, register_client.temporary,
            CASE WHEN register_client.temporary THEN clock_timestamp() END, register_client.process,
            register_client.library, register_client.address, clock_timestamp(), asking_user)
    ON CONFLICT ON CONSTRAINT clients_name_unique DO NOTHING
    RETURNING client.client_id, client.session
    INTO register_client.client_id, register_client.session;
    IF register_client.client_id IS NOT NULL THEN
        RETURN;
    END IF;

    SELECT client.client_id,
           client.token = register_client.token AND client.user_id IS NOT DISTINCT FROM asking_user,
           client.mode = register_client.mode,
           register_client.attempt <= client.attempt
    INTO existing_id, same_token, same_mode, overtaken
    FROM telesto.clients AS client
    WHERE client.name = register_client.name;
    IF existing_id IS NOT NULL AND same_token IS NOT TRUE THEN
        error := :CLIENT_NAME_NOT_UNIQUE;
        RETURN;
    ELSIF NOT same_mode THEN
        error := :CLIENT_MODE_PERMISSION_VIOLATION;
        RETURN;
    ELSIF overtaken THEN
        error := :SESSION_FENCED;
        RETURN;
    END IF;
    SELECT opened.session INTO register_client.session
    FROM telesto.open_session(existing_id, register_client.token, true, register_client.attempt,
                              register_client.process, register_client.library, register_client.address) AS opened;
    -- Deleted or taken over meanwhile is like busy: the next try finds out.
    error := CASE WHEN register_client.session IS NULL THEN :BUSY END;
    client_id := CASE WHEN register_client.session IS NOT NULL THEN existing_id END;
END
$$;
