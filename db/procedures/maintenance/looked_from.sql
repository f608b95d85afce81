-- Procedure:  looked_from
-- Purpose:    Where a job that looks for what has come due begins: all before its last look has been dealt with. The
--             margin is for transactions that took long to commit; for those that took longer, all is looked at
--             once a minute.
-- Returns:
--   timestamptz             the time from which it looks
-- Tables:     jobs (read)
CREATE OR REPLACE FUNCTION telesto.looked_from(
    job text,        -- the job
    due timestamptz  -- the time up to which it looks now
)
RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
SELECT CASE WHEN date_trunc('minute', look.ended_at + interval '2 seconds') < date_trunc('minute', due)
              -- Or the clock has been set back since.
              OR look.ended_at > due
            THEN '-infinity' ELSE look.ended_at END
FROM (SELECT to_timestamp(job.position / 1e6) AS ended_at FROM telesto.jobs AS job
      WHERE job.job = looked_from.job) AS look
$$;
