-- Procedure:  note_history_days
-- Purpose:    Notes the days of the open partitions of history where those find them who end messages.
-- Locks:      the calendar's row
-- Tables:     history_partitions (read), history_calendar (update)
CREATE OR REPLACE FUNCTION telesto.note_history_days()
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE telesto.history_calendar AS calendar
    SET days = ARRAY(SELECT partition.day FROM telesto.history_partitions AS partition
                     WHERE partition.state = 'open'
                     ORDER BY partition.day)
    WHERE calendar.only_row;
END
$$;
