-- Procedure:  sweep_temporary_clients
-- Purpose:    Deletes one temporary client that no middleware has seen for too long: its process is gone.
-- Locks:      client (exclusive, try), and those of remove_client
-- Tables:     clients (read, delete), and those of remove_client
CREATE OR REPLACE FUNCTION telesto.sweep_temporary_clients(
    unseen_s double precision,  -- for how long it was not seen, in seconds
    latest timestamptz,         -- the clock of this server was not beyond this; NULL when not known
    OUT done bigint,            -- how many were deleted
    OUT more boolean,           -- whether there may be more to do
    OUT queue_ids bigint[],     -- per message that came back: its queue
    OUT receiver_ids bigint[]   -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    unseen_since timestamptz := least(clock_timestamp(), latest) - make_interval(secs => unseen_s);
    gone_id bigint;
BEGIN
    done := 0;
    more := false;
    FOR gone_id IN SELECT client.client_id
                   FROM telesto.clients AS client
                   WHERE client.temporary AND client.seen_at < unseen_since
    LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(telesto.client_lock_key(gone_id));
        -- It may have connected again, or have been deleted, before it was locked.
        PERFORM FROM telesto.clients AS client
        WHERE client.client_id = gone_id AND client.seen_at < unseen_since
        FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        SELECT removed.queue_ids, removed.receiver_ids INTO queue_ids, receiver_ids
        FROM telesto.remove_client(gone_id) AS removed;
        done := 1;
        more := true;
        RETURN;
    END LOOP;
END
$$;
