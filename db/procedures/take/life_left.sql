-- Procedure:  life_left
-- Purpose:    How long until a message expires.
-- Returns:
--   bigint                  milliseconds, 0 when it has; NULL for never
CREATE OR REPLACE FUNCTION telesto.life_left(
    expires_at timestamptz,  -- when it does; NULL for never
    moment timestamptz       -- seen from when
)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT CASE WHEN expires_at IS NOT NULL
            THEN greatest(0, ceil(extract(epoch FROM expires_at - moment) * 1000))::bigint END
$$;
