-- Procedure:  next_upper
-- Purpose:    The upper bounds of a queue after a put: the batch's last id for every priority that it put into.
-- Returns:
--   bigint[]                the new bounds
CREATE OR REPLACE FUNCTION telesto.next_upper(
    upper bigint[],      -- the bounds so far, by priority
    put_priorities int,  -- the priorities that were put into, priority p as bit p
    last_id bigint       -- the batch's last id
)
RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT ARRAY[
    CASE WHEN put_priorities & 2 <> 0 THEN last_id ELSE upper[1] END,
    CASE WHEN put_priorities & 4 <> 0 THEN last_id ELSE upper[2] END,
    CASE WHEN put_priorities & 8 <> 0 THEN last_id ELSE upper[3] END,
    CASE WHEN put_priorities & 16 <> 0 THEN last_id ELSE upper[4] END,
    CASE WHEN put_priorities & 32 <> 0 THEN last_id ELSE upper[5] END,
    CASE WHEN put_priorities & 64 <> 0 THEN last_id ELSE upper[6] END,
    CASE WHEN put_priorities & 128 <> 0 THEN last_id ELSE upper[7] END,
    CASE WHEN put_priorities & 256 <> 0 THEN last_id ELSE upper[8] END,
    CASE WHEN put_priorities & 512 <> 0 THEN last_id ELSE upper[9] END,
    CASE WHEN put_priorities & 1024 <> 0 THEN last_id ELSE upper[10] END
]
$$;
