-- Procedure:  make_history_day
-- Purpose:    Makes the partition of history for one day. It is made apart and then attached, which lets those go on
--             who read and write the history.
-- Locks:      none that others wait for; the caller holds history (SHARE UPDATE EXCLUSIVE)
-- Tables:     history, history_partitions (insert)
CREATE OR REPLACE FUNCTION telesto.make_history_day(
    new_day date  -- the day: of rows with this drop_on
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    name constant text := 'history_' || to_char(new_day, 'YYYYMMDD');
BEGIN
    -- Rows come and go with their partition: no vacuum is needed before that of old transaction ids.
    EXECUTE format('CREATE TABLE telesto.%I (LIKE telesto.history INCLUDING DEFAULTS INCLUDING STORAGE)'
                   ' WITH (autovacuum_vacuum_insert_threshold = -1)', name);
    EXECUTE format('ALTER TABLE telesto.history ATTACH PARTITION telesto.%I FOR VALUES FROM (%L) TO (%L)',
                   name, new_day, new_day + 1);
    INSERT INTO telesto.history_partitions (day, due_on, name) VALUES (new_day, new_day, name);
END
$$;
