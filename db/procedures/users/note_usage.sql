-- Procedure:  note_usage
-- Purpose:    Keeps what was measured of users.
-- Returns:
--   bigint  the users that have reached a quota now, or have space again
-- Tables:     users (read), user_usage (insert, update)
CREATE OR REPLACE FUNCTION telesto.note_usage(
    limited bigint[],  -- the users
    counted jsonb      -- by user: how many messages, and bytes; nothing for one that has none
)
RETURNS SETOF bigint
LANGUAGE sql VOLATILE
AS $$
WITH before AS (
    SELECT usage.user_id, usage.stored_messages, usage.stored_bytes FROM telesto.user_usage AS usage
), now AS (
    INSERT INTO telesto.user_usage AS usage (user_id, stored_messages, stored_bytes, measured_at)
    SELECT owner.user_id, coalesce((counted -> owner.user_id::text ->> 0)::numeric, 0)::bigint,
           coalesce((counted -> owner.user_id::text ->> 1)::numeric, 0)::bigint, clock_timestamp()
    FROM telesto.users AS owner
    WHERE owner.user_id = ANY (limited)
    ON CONFLICT ON CONSTRAINT user_usage_pkey DO UPDATE
    SET stored_messages = EXCLUDED.stored_messages, stored_bytes = EXCLUDED.stored_bytes,
        measured_at = EXCLUDED.measured_at
    RETURNING usage.user_id, usage.stored_messages, usage.stored_bytes
)
SELECT owner.user_id
FROM now
JOIN telesto.users AS owner ON owner.user_id = now.user_id
LEFT JOIN before ON before.user_id = now.user_id
WHERE ((now.stored_messages >= owner.max_stored_messages OR now.stored_bytes >= owner.max_stored_bytes) IS TRUE)
      <> ((before.stored_messages >= owner.max_stored_messages
           OR before.stored_bytes >= owner.max_stored_bytes) IS TRUE)
$$;
