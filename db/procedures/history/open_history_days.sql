-- Procedure:  open_history_days
-- Purpose:    Opens partitions of history that earlier transactions have made. Until then, what had no partition of its
--             own went to the last one that was open. If it went there too soon, that one is kept longer, and nothing
--             else is sent there.
-- Locks:      the caller holds history (SHARE UPDATE EXCLUSIVE), so that the maker of a partition has told everybody to
--             look for it, and history days (exclusive); the calendar's row
-- Tables:     queues (read), history_partitions (update), history_calendar (update)
CREATE OR REPLACE FUNCTION telesto.open_history_days(
    today date  -- the day, UTC
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    longest constant int := (SELECT max(queue.history_days) FROM telesto.queues AS queue);
    last_open constant date := (SELECT max(partition.day) FROM telesto.history_partitions AS partition
                                WHERE partition.state = 'open');
    last_made constant date := (SELECT max(partition.day) FROM telesto.history_partitions AS partition
                                WHERE partition.state = 'made' AND NOT partition.emptied);
BEGIN
    IF last_made IS NULL THEN
        RETURN;
    END IF;
    UPDATE telesto.history_partitions AS partition
    SET due_on = today + longest + 2, due_since = NULL, emptied = false,
        state = CASE WHEN partition.day > today THEN 'closed' ELSE partition.state END
    WHERE partition.day = last_open AND last_open < last_made
      AND partition.day < today + longest + 1
      AND (partition.due_on IS NULL OR partition.due_on < today + longest + 2);

    UPDATE telesto.history_partitions AS partition
    SET state = 'open'
    WHERE partition.state = 'made' AND NOT partition.emptied;
    PERFORM telesto.note_history_days();
END
$$;
