-- Procedure:  get_queue_names
-- Purpose:    The names of queues, by which rights are decided.
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.get_queue_names(
    queue_ids bigint[]  -- the queues
)
RETURNS TABLE (
    queue_id bigint,    -- a queue; one that does not exist has no row
    name text           -- its name
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT queue.queue_id, queue.name
    FROM telesto.queues AS queue
    WHERE queue.queue_id = ANY (get_queue_names.queue_ids);
END
$$;
