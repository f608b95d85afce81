-- Procedure:  heartbeat
-- Purpose:    A middleware's sign of life. Ends the server processes of those that have given none for too
--             long, so that what hangs with them keeps no lock, and removes them from the list. Runs under
--             the rights of its caller, because its login decides which processes it may end: all
--             middlewares use the same, or have pg_signal_backend.
-- Errors:     none raised; a process that the caller may not end is logged
-- Locks:      as renew_heartbeat
-- Tables:     as renew_heartbeat
CREATE OR REPLACE FUNCTION telesto.heartbeat(
    own_id bigint,                   -- the middleware that lives
    pids int[],                      -- the server processes that work for it
    timeout_s double precision,      -- how long the others may be silent, in seconds
    latest timestamptz DEFAULT NULL  -- the clock of this server was not beyond this, unless it was set; NULL when that
                                     -- is not known
)
RETURNS TABLE (
    middleware_id bigint,  -- a middleware, the caller included; not listed: it has been removed
    address text,          -- where its clients reach it
    alive boolean          -- false: it was silent for too long and has been removed
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    middleware record;
    victim int;
BEGIN
    FOR middleware IN
        SELECT renewed.* FROM telesto.renew_heartbeat(own_id, heartbeat.pids, timeout_s, latest) AS renewed
    LOOP
        middleware_id := middleware.middleware_id;
        address := middleware.address;
        alive := middleware.alive;
        RETURN NEXT;
        CONTINUE WHEN alive;
        -- A process that is younger than the last sign of life has got the number of one that ended. One that seems to
        -- begin later than now began before the clock was set back.
        FOR victim IN
            SELECT activity.pid FROM pg_stat_activity AS activity
            WHERE activity.pid = ANY (middleware.pids)
              AND activity.datname = current_database()
              AND (activity.backend_start <= middleware.heartbeat_at OR activity.backend_start > clock_timestamp())
              AND activity.pid <> pg_backend_pid()
        LOOP
            BEGIN
                PERFORM pg_terminate_backend(victim);
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE LOG 'telesto may not end process % of a middleware that is silent', victim;
            END;
        END LOOP;
    END LOOP;
END
$$;
