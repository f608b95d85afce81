-- Procedure:  renew_heartbeat
-- Purpose:    The part of heartbeat that touches tables: notes the sign of life and removes those that have
--             given none for too long.
-- Locks:      rows of middlewares; rows that others hold are passed over, their owners are alive
-- Tables:     middlewares (read, update, delete), interests, lost_leases (delete), jobs (update)
CREATE OR REPLACE FUNCTION telesto.renew_heartbeat(
    own_id bigint,                   -- the middleware that lives
    own_pids int[],                  -- the server processes that work for it
    timeout_s double precision,      -- how long the others may be silent, in seconds
    latest timestamptz DEFAULT NULL  -- the clock of this server was not beyond this, unless it was set; NULL when that
                                     -- is not known
)
RETURNS TABLE (
    middleware_id bigint,     -- a middleware
    address text,             -- where its clients reach it
    alive boolean,            -- false: it was silent for too long and has been removed
    pids int[],               -- the server processes that work for it; none if they are another server's, or were there
                              -- before a restart: their numbers mean nothing here
    heartbeat_at timestamptz  -- its last sign of life
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    dead bigint[];
BEGIN
    UPDATE telesto.middlewares AS middleware
    SET heartbeat_at = clock_timestamp(), pids = own_pids, server_started_at = pg_postmaster_start_time()
    WHERE middleware.middleware_id = own_id;
    dead := ARRAY(SELECT middleware.middleware_id FROM telesto.middlewares AS middleware
                  WHERE middleware.middleware_id <> own_id
                    AND middleware.heartbeat_at < least(clock_timestamp(), latest) - make_interval(secs => timeout_s)
                  FOR UPDATE SKIP LOCKED);
    RETURN QUERY
    SELECT middleware.middleware_id, middleware.address, middleware.middleware_id <> ALL (dead),
           CASE WHEN middleware.server_started_at = pg_postmaster_start_time() THEN middleware.pids ELSE '{}' END,
           middleware.heartbeat_at
    FROM telesto.middlewares AS middleware;
    IF dead <> '{}' THEN
        PERFORM telesto.forget_middlewares(dead);
    END IF;
END
$$;
