-- Procedure:  get_queue_settings
-- Purpose:    Tells the settings of a queue. One that the user of the caller may not see is to it as if it did not exist.
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
    seen constant text[] := telesto.seen_patterns(telesto.sql_caller());
BEGIN
    IF seen IS NULL OR EXISTS (SELECT FROM telesto.queues AS queue
                               WHERE queue.queue_id = get_queue_settings.queue_id
                                 AND telesto.name_matches(seen, queue.name)) THEN
        settings := telesto.settings_of(queue_id);
    END IF;
    error := CASE WHEN settings IS NULL THEN :QUEUE_NOT_EXISTING END;
END
$$;
