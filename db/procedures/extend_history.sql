-- Procedure:  extend_history
-- Purpose:    Makes partitions of history ahead: for the days on which what ends today and in the next days has to
--             be dropped. Whatever ended while there was none for it is in the last one that there was, which
--             is therefore kept longer.
-- Parameters:
--   today date              the day, UTC
--   max_days int            at most so many in this call
--   too_late boolean        whether something may have ended for which there was no partition
-- Returns:
--   made int                how many were made
--   more boolean            whether some are missing still
-- Errors:     none raised
-- Locks:      history (SHARE UPDATE EXCLUSIVE, try), which neither readers nor writers wait for
-- Tables:     queues (read), history, history_partitions (insert, update), history_calendar (update)
CREATE OR REPLACE FUNCTION telesto.extend_history(
    today date,
    max_days int,
    too_late boolean,
    OUT made int,
    OUT more boolean
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    missing date[];
    longest int;
BEGIN
    made := 0;
    more := false;
    IF telesto.missing_history_days(today) = '{}' THEN
        RETURN;
    END IF;
    BEGIN
        LOCK TABLE ONLY telesto.history IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN;
    END;
    -- Another one may have made them before the lock was ours.
    missing := telesto.missing_history_days(today);
    longest := (SELECT max(queue.history_days) FROM telesto.queues AS queue);
    UPDATE telesto.history_partitions AS partition
    SET due_on = today + longest + 2, due_since = NULL, emptied = false
    WHERE too_late
      AND partition.day = (SELECT max(last.day) FROM telesto.history_partitions AS last)
      AND partition.day < today + longest + 1
      AND (partition.due_on IS NULL OR partition.due_on < today + longest + 2);

    made := least(cardinality(missing), max_days);
    more := made < cardinality(missing);
    PERFORM telesto.make_history_day(missing[i]) FROM generate_series(1, made) AS i;
    PERFORM telesto.note_history_days();
END
$$;
