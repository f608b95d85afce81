-- Procedure:  identify_client
-- Purpose:    Opens a new session of a client and so fences its session before: a takeover. What that one
--             executed is then final; list_unconfirmed_operations and list_unconfirmed_hand_overs show it.
--             Writes also when the client is gone, which tells one that deletes itself that this was done.
--             A user takes only its own clients, and those of nobody whose name its patterns match, which are its own
--             from then on; others are to it as if they did not exist.
-- Errors:     OVERLOADED (a quota of the user), check_violation for a token out of range
-- Locks:      client (exclusive, try), and those of adopt_client
-- Tables:     clients (read, update), users (read), deliveries (update), installation (read), and those of adopt_client
CREATE OR REPLACE FUNCTION telesto.identify_client(
    wanted_id bigint,                   -- the client, or 0 to find it by name
    wanted_name text,                   -- its name when wanted_id is 0
    token bytea DEFAULT NULL,           -- stands for the process that opens the session; NULL for none
    resume boolean DEFAULT false,       -- only if the session now was opened with the same token
    attempt bigint DEFAULT NULL,        -- rises with the attempts of a token, so that one that comes late does not
                                        -- fence the session that a later one opened; NULL when the caller does not
                                        -- count
    wanted_mode smallint DEFAULT NULL,  -- the mode that the client must have; NULL for any
    process text DEFAULT NULL,          -- the process that opens the session, for people
    library text DEFAULT NULL,          -- the name and version of its library
    address text DEFAULT NULL,          -- the address of its connection
    asking_user bigint DEFAULT NULL,    -- the user to whom it has to belong; NULL when that does not matter
    names text[] DEFAULT NULL,          -- the patterns of the names that the user's clients may have
    readable text[] DEFAULT NULL,       -- the patterns of the queues that the user may read
    OUT error smallint,                 -- NULL, BUSY (a transaction of the client is still running: try again),
                                        -- CLIENT_NOT_EXISTING, CLIENT_MODE_PERMISSION_VIOLATION (it has another mode,
                                        -- which is told) or SESSION_FENCED (another process has the client, or a later
                                        -- attempt)
    OUT client_id bigint,               -- the client
    OUT client_name text,               -- its name
    OUT mode smallint,                  -- 1 FULL, 2 READ_ONLY
    OUT temporary boolean,              -- it is deleted when its connection is not seen any more
    OUT session bigint,                 -- its new session
    OUT incarnation text,               -- identifies this database
    OUT former jsonb,                   -- who had the session before, for people
    OUT queue_ids bigint[],             -- per message that came back, see adopt_client: its queue
    OUT receiver_ids bigint[]           -- the same: for whom; 0 for anyone
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    found_id bigint := wanted_id;
BEGIN
    PERFORM telesto.require_read_committed();
    IF wanted_id = 0 THEN
        SELECT client.client_id INTO found_id
        FROM telesto.clients AS client
        WHERE client.name = wanted_name;
    END IF;
    IF found_id IS NULL OR (asking_user IS NOT NULL
                            AND telesto.may_be_client(found_id, asking_user, names) IS NOT TRUE) THEN
        PERFORM pg_logical_emit_message(true, 'telesto', '');
        error := :CLIENT_NOT_EXISTING;
        RETURN;
    END IF;
    -- A mode never changes, so that this needs no lock.
    SELECT client.mode INTO identify_client.mode
    FROM telesto.clients AS client
    WHERE client.client_id = found_id;
    IF identify_client.mode <> wanted_mode THEN
        error := :CLIENT_MODE_PERMISSION_VIOLATION;
        RETURN;
    END IF;
    IF asking_user IS NOT NULL THEN
        -- Under the lock of the client its owner does not change.
        IF NOT pg_try_advisory_xact_lock(telesto.client_lock_key(found_id)) THEN
            error := :BUSY;
            RETURN;
        ELSIF telesto.may_be_client(found_id, asking_user, names) IS NOT TRUE THEN
            PERFORM pg_logical_emit_message(true, 'telesto', '');
            error := :CLIENT_NOT_EXISTING;
            mode := NULL;
            RETURN;
        END IF;
    END IF;
    SELECT opened.error, opened.session, opened.former
    INTO identify_client.error, identify_client.session, identify_client.former
    FROM telesto.open_session(found_id, token, resume, attempt, process, library, address) AS opened;
    IF identify_client.error IS NOT NULL THEN
        RETURN;
    END IF;
    IF asking_user IS NOT NULL AND EXISTS (SELECT FROM telesto.clients AS client
                                           WHERE client.client_id = found_id
                                             AND client.user_id IS DISTINCT FROM asking_user) THEN
        SELECT adopted.queue_ids, adopted.receiver_ids
        INTO identify_client.queue_ids, identify_client.receiver_ids
        FROM telesto.adopt_client(found_id, asking_user, readable) AS adopted;
    END IF;
    SELECT client.client_id, client.name, client.mode, client.temporary
    INTO identify_client.client_id, identify_client.client_name, identify_client.mode, identify_client.temporary
    FROM telesto.clients AS client
    WHERE client.client_id = found_id;
    incarnation := telesto.get_incarnation();
END
$$;
