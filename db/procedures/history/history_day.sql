-- Procedure:  history_day
-- Purpose:    The partition of history for a message that ends: the first whose day comes after the last day on
--             which it is to be kept. Without one, the last there is; open_history_days keeps that one longer.
-- Returns:
--   date                    the value of drop_on
CREATE OR REPLACE FUNCTION telesto.history_day(
    days date[],      -- the days of the partitions, sorted
    today date,       -- the day on which it ends, UTC
    history smallint  -- for how many days it is kept; the sign says nothing here
)
RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT coalesce(days[width_bucket(today + abs(history), days) + 1], days[cardinality(days)])
$$;
