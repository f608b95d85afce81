-- Procedure:  client_lock_key
-- Purpose:    The advisory lock key of a client. Shared: a batch works for it. Exclusive: a takeover.
-- Returns:
--   bigint                  class 1 in the highest byte, the id below
CREATE OR REPLACE FUNCTION telesto.client_lock_key(
    client_id bigint  -- the client
)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 1::bigint << 56 | client_id $$;
