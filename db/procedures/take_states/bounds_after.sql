-- Procedure:  bounds_after
-- Purpose:    The lower bounds of a scan after messages were taken out of their order: for the priorities that
--             were touched, the first message that is left is looked up. Its head is where the bound was,
--             so the look-up walks over what was just taken and no further.
-- Returns:
--   bigint[]                the new bounds
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     messages (read)
CREATE OR REPLACE FUNCTION telesto.bounds_after(
    queue_id bigint,     -- the queue
    receiver_id bigint,  -- the reader whose own messages these are; 0 for those for anyone
    lower bigint[],      -- the bounds so far, by priority
    last_id bigint,      -- the queue's last id as read before the scan
    touched smallint[]   -- the priorities that messages were taken from
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    bounds bigint[] := lower;
    level smallint;
    head bigint;
BEGIN
    FOR level IN SELECT DISTINCT unnest(touched) LOOP
        SELECT message.message_id INTO head
        FROM telesto.messages AS message
        WHERE message.queue_id = bounds_after.queue_id
          AND message.receiver_id = bounds_after.receiver_id
          AND message.priority = level
          AND message.message_id >= lower[level]
        ORDER BY message.message_id
        LIMIT 1;
        bounds[level] := coalesce(head, greatest(lower[level], last_id + 1));
    END LOOP;
    RETURN bounds;
END
$$;
