-- Procedure:  history_of
-- Purpose:    What a message carries for the history, from the settings of its queue.
-- Returns:
--   smallint                0 for nothing, else the days, negative when the body is kept too
CREATE OR REPLACE FUNCTION telesto.history_of(
    history text,          -- 'none', 'metadata' or 'full'
    history_days smallint  -- for how many days
)
RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT CASE history WHEN 'full' THEN -history_days WHEN 'metadata' THEN history_days ELSE 0::smallint END
$$;
