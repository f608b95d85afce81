-- Procedure:  topic_lock_key
-- Purpose:    The advisory lock key under which a topic's numbers are drawn and its state changes.
-- Returns:
--   bigint                  class 4 in the highest byte, the id below
CREATE OR REPLACE FUNCTION telesto.topic_lock_key(
    topic_id bigint  -- the topic
)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 4::bigint << 56 | topic_id $$;
