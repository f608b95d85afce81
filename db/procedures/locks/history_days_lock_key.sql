-- Procedure:  history_days_lock_key
-- Purpose:    The advisory lock key of the days of the history. Shared: settings that say for how many days are being
--             changed. Exclusive: partitions are opened, for which all settings must be seen that messages may carry.
-- Returns:
--   bigint                  the key
CREATE OR REPLACE FUNCTION telesto.history_days_lock_key()
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 7::bigint << 56 $$;
