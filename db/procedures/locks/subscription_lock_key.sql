-- Procedure:  subscription_lock_key
-- Purpose:    The advisory lock key under which a subscription's position changes.
-- Returns:
--   bigint                  class 5 in the highest byte, the id below
CREATE OR REPLACE FUNCTION telesto.subscription_lock_key(
    subscription_id bigint  -- the subscription
)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 5::bigint << 56 | subscription_id $$;
