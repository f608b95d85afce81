-- Procedure:  get_queue_id
-- Purpose:    Finds a queue by its name.
-- Errors:     TL032 PERMISSION_DENIED
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.get_queue_id(
    name text,           -- the name
    OUT error smallint,  -- NULL or QUEUE_NOT_EXISTING
    OUT queue_id bigint  -- the queue
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    seen constant text[] := telesto.seen_patterns(telesto.sql_caller());
BEGIN
    SELECT queue.queue_id INTO get_queue_id.queue_id
    FROM telesto.queues AS queue
    WHERE queue.name = get_queue_id.name AND (seen IS NULL OR telesto.name_matches(seen, queue.name));
    error := CASE WHEN NOT FOUND THEN :QUEUE_NOT_EXISTING END;
END
$$;
