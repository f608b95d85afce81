-- Procedure:  take_lock_key
-- Purpose:    The advisory lock key under which messages of a queue are taken and given back.
-- Returns:
--   bigint                  class 3 in the highest byte, the id below
CREATE OR REPLACE FUNCTION telesto.take_lock_key(
    queue_id bigint  -- the queue
)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 3::bigint << 56 | queue_id $$;
