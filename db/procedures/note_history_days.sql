-- Procedure:  note_history_days
-- Purpose:    Notes the days of the partitions of history where those find them who end messages.
-- Parameters: none
-- Returns:
--   void
-- Errors:     none raised
-- Locks:      the calendar's row
-- Tables:     history_partitions (read), history_calendar (update)
CREATE OR REPLACE FUNCTION telesto.note_history_days()
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE telesto.history_calendar AS calendar
    SET days = (SELECT array_agg(partition.day ORDER BY partition.day) FROM telesto.history_partitions AS partition)
    WHERE calendar.only_row;
END
$$;
