-- Procedure:  missing_history_days
-- Purpose:    The days for which history lacks a partition and will need one soon.
-- Returns:
--   date[]                  the days, the soonest first; empty when none is missing
-- Tables:     queues, history_partitions (read)
CREATE OR REPLACE FUNCTION telesto.missing_history_days(
    today date  -- the day, UTC
)
RETURNS date[]
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    usual_days constant int := 7;
    days_ahead constant int := 3;
BEGIN
    RETURN ARRAY(
        SELECT DISTINCT today + kept.days + 1 + ahead AS day
        FROM (SELECT usual_days AS days UNION SELECT queue.history_days FROM telesto.queues AS queue) AS kept
        CROSS JOIN generate_series(0, days_ahead) AS ahead
        WHERE NOT EXISTS (SELECT FROM telesto.history_partitions AS partition
                          WHERE partition.day = today + kept.days + 1 + ahead)
        ORDER BY day);
END
$$;
