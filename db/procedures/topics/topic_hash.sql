-- Procedure:  topic_hash
-- Purpose:    What a topic is found by: its name may be longer than an index takes.
-- Returns:
--   bytea                   32 bytes
CREATE OR REPLACE FUNCTION telesto.topic_hash(
    name text  -- the name
)
RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT sha256(convert_to(name, 'UTF8')) $$;
