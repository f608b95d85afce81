-- Procedure:  elect
-- Purpose:    Gives a single job to one middleware until a deadline; it keeps it by asking again before.
-- Returns:
--   boolean                 whether the job is the caller's now
-- Locks:      the job's row; one that another transaction holds is left to it
-- Tables:     jobs (insert, update)
CREATE OR REPLACE FUNCTION telesto.elect(
    middleware_id bigint,    -- who asks
    wanted_job text,         -- the job
    hold_s double precision  -- how long it is given, in seconds
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM telesto.jobs AS job WHERE job.job = wanted_job;
    IF NOT FOUND THEN
        INSERT INTO telesto.jobs (job) VALUES (wanted_job) ON CONFLICT DO NOTHING;
    END IF;
    UPDATE telesto.jobs AS job
    SET holder = elect.middleware_id, deadline = clock_timestamp() + make_interval(secs => hold_s)
    WHERE job.job = (SELECT free.job FROM telesto.jobs AS free
                     WHERE free.job = wanted_job
                       AND (free.holder = elect.middleware_id
                            -- One further away than it is ever given was given before the clock was set back.
                            OR free.deadline NOT BETWEEN clock_timestamp()
                                                 AND clock_timestamp() + make_interval(secs => hold_s))
                     FOR UPDATE SKIP LOCKED);
    RETURN FOUND;
END
$$;
