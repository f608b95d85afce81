-- Procedure:  next_bounds
-- Purpose:    The lower bounds of a scan after messages were taken in order of priority and age, the last of
--             them from the priority given. Priorities above it had run dry: all that was put into them up to
--             the queue's last id has gone.
-- Returns:
--   bigint[]                the new bounds
CREATE OR REPLACE FUNCTION telesto.next_bounds(
    lower bigint[],    -- the bounds so far, by priority
    last_id bigint,    -- the queue's last id as read before the scan
    priority int,      -- the priority of the last message taken
    message_id bigint  -- its id
)
RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT ARRAY[
    CASE WHEN priority > 1 THEN lower[1] ELSE message_id + 1 END,
    CASE WHEN priority > 2 THEN lower[2] WHEN priority = 2 THEN message_id + 1
         ELSE greatest(lower[2], last_id + 1) END,
    CASE WHEN priority > 3 THEN lower[3] WHEN priority = 3 THEN message_id + 1
         ELSE greatest(lower[3], last_id + 1) END,
    CASE WHEN priority > 4 THEN lower[4] WHEN priority = 4 THEN message_id + 1
         ELSE greatest(lower[4], last_id + 1) END,
    CASE WHEN priority > 5 THEN lower[5] WHEN priority = 5 THEN message_id + 1
         ELSE greatest(lower[5], last_id + 1) END,
    CASE WHEN priority > 6 THEN lower[6] WHEN priority = 6 THEN message_id + 1
         ELSE greatest(lower[6], last_id + 1) END,
    CASE WHEN priority > 7 THEN lower[7] WHEN priority = 7 THEN message_id + 1
         ELSE greatest(lower[7], last_id + 1) END,
    CASE WHEN priority > 8 THEN lower[8] WHEN priority = 8 THEN message_id + 1
         ELSE greatest(lower[8], last_id + 1) END,
    CASE WHEN priority > 9 THEN lower[9] WHEN priority = 9 THEN message_id + 1
         ELSE greatest(lower[9], last_id + 1) END,
    CASE WHEN priority = 10 THEN message_id + 1 ELSE greatest(lower[10], last_id + 1) END
]
$$;
