-- Procedure:  look_ended
-- Purpose:    Notes up to where a job has dealt with what had come due, less a margin, see looked_from.
-- Locks:      none; the caller holds the job's row
-- Tables:     jobs (update)
CREATE OR REPLACE FUNCTION telesto.look_ended(
    job text,        -- the job
    due timestamptz  -- the time before which nothing is left
)
RETURNS void
LANGUAGE sql
AS $$
UPDATE telesto.jobs AS job
SET position = greatest(0, extract(epoch FROM due - interval '2 seconds') * 1e6)::bigint
WHERE job.job = look_ended.job
$$;
