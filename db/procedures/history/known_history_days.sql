-- Procedure:  known_history_days
-- Purpose:    The days of the history for procedures that end messages: those whose partitions every server process can know
--             of, and this one now does. A process hears of a new partition when it takes a lock which it does not
--             have; in a transaction that has them all from earlier calls nothing would tell it. The look at the
--             catalog of the partitions takes one, and lets it go.
-- Returns:
--   date[]                  the days, sorted
-- Tables:     history_calendar (read)
CREATE OR REPLACE FUNCTION telesto.known_history_days()
RETURNS date[]
LANGUAGE plpgsql
AS $$
DECLARE
    days constant date[] := (SELECT calendar.days FROM telesto.history_calendar AS calendar WHERE calendar.only_row);
BEGIN
    -- Behind the days: what is heard of is at least as new as they are.
    PERFORM pg_partition_ancestors('telesto.history'::regclass);
    RETURN days;
END
$$;
