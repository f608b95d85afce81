-- Procedure:  shown_setting
-- Purpose:    A setting as a SQL user has it: durations as intervals.
-- Returns:
--   text                    the value; none for what a queue is without
CREATE OR REPLACE FUNCTION telesto.shown_setting(
    name text,   -- the column
    value jsonb  -- its value
)
RETURNS text
LANGUAGE sql
AS $$
SELECT coalesce(CASE WHEN name LIKE '%\_ms'
                     THEN justify_hours(make_interval(secs => (value #>> '{}')::double precision / 1000))::text
                     ELSE value #>> '{}' END, 'none')
$$;
