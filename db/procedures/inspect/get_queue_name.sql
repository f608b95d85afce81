-- Procedure:  get_queue_name
-- Purpose:    Finds a queue's name.
-- Errors:     TL032 PERMISSION_DENIED
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.get_queue_name(
    queue_id bigint,     -- the queue
    OUT error smallint,  -- NULL or QUEUE_NOT_EXISTING
    OUT queue_name text  -- its name
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    seen constant text[] := telesto.seen_patterns(telesto.sql_caller());
BEGIN
    SELECT queue.name INTO get_queue_name.queue_name
    FROM telesto.queues AS queue
    WHERE queue.queue_id = get_queue_name.queue_id AND (seen IS NULL OR telesto.name_matches(seen, queue.name));
    error := CASE WHEN NOT FOUND THEN :QUEUE_NOT_EXISTING END;
END
$$;
