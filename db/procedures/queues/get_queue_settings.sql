-- Procedure:  get_queue_settings
-- Purpose:    Tells the settings of a queue: every column of queues that does not say which queue it is.
-- Errors:     TL032 PERMISSION_DENIED
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.get_queue_settings(
    queue_id bigint,     -- the queue
    OUT error smallint,  -- NULL or QUEUE_NOT_EXISTING
    OUT settings jsonb   -- the settings by their names
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    seen constant text[] := telesto.seen_patterns();
BEGIN
    SELECT to_jsonb(queue) - '{queue_id, name, created_at, user_id}'::text[]
    INTO settings
    FROM telesto.queues AS queue
    WHERE queue.queue_id = get_queue_settings.queue_id AND (seen IS NULL OR telesto.name_matches(seen, queue.name));
    error := CASE WHEN NOT FOUND THEN :QUEUE_NOT_EXISTING END;
END
$$;
