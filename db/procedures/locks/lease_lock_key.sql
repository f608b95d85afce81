-- Procedure:  lease_lock_key
-- Purpose:    The advisory lock key of a leased message. Exclusive: an application acknowledges it in a transaction of
--             its own, which may stay open. Shared: a call of a middleware waits for its row.
-- Returns:
--   bigint                  the key
CREATE OR REPLACE FUNCTION telesto.lease_lock_key(
    message_id bigint  -- the message
)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 6::bigint << 56 | message_id $$;
