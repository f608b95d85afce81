-- Procedure:  backoff
-- Purpose:    How long a message waits after a failed attempt: twice as long after each, and by chance up to a half
--             less, so that what failed together does not come together again.
-- Returns:
--   bigint                  in milliseconds
CREATE OR REPLACE FUNCTION telesto.backoff(
    attempt int,   -- how many attempts there were, the failed one included
    first_ms int,  -- how long after the first one, in milliseconds
    most_ms int    -- how long at most
)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
SELECT (least(first_ms * 2.0 ^ least(attempt - 1, 40), most_ms) * (0.5 + random() / 2))::bigint
$$;
