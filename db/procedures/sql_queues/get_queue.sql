-- Procedure:  get_queue
-- Purpose:    Gives SQL users the id of the queue of a name, for the procedures that take one.
-- Returns:
--   bigint                  the queue
-- Errors:     TL032 PERMISSION_DENIED,
--             TL007 QUEUE_NOT_EXISTING
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.get_queue(
    name text  -- the name
)
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    seen constant text[] := telesto.seen_patterns();
    found_id bigint;
BEGIN
    SELECT queue.queue_id INTO found_id
    FROM telesto.queues AS queue
    WHERE queue.name = get_queue.name AND (seen IS NULL OR telesto.name_matches(seen, queue.name));
    IF found_id IS NULL THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %s', coalesce(quote_literal(name), 'NULL')));
    END IF;
    RETURN found_id;
END
$$;
