-- Procedure:  put_lock_key
-- Purpose:    The advisory lock key under which message ids of a queue are drawn and its put state changes.
-- Returns:
--   bigint                  class 2 in the highest byte, the id below
CREATE OR REPLACE FUNCTION telesto.put_lock_key(
    queue_id bigint  -- the queue
)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 2::bigint << 56 | queue_id $$;
