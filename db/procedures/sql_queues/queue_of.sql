-- Procedure:  queue_of
-- Purpose:    Finds the queue of a name for the caller of a SQL procedure. One that it may not see is to it as if it did
--             not exist.
-- Returns:
--   bigint                  the queue
-- Errors:     TL007 QUEUE_NOT_EXISTING
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.queue_of(
    caller telesto.users,  -- see sql_caller
    name text              -- the queue
)
RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_variable
DECLARE
    seen constant text[] := telesto.seen_patterns(caller);
    found_id bigint;
BEGIN
    SELECT queue.queue_id INTO found_id
    FROM telesto.queues AS queue
    WHERE queue.name = queue_of.name AND (seen IS NULL OR telesto.name_matches(seen, queue.name));
    IF found_id IS NULL THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %s', coalesce(quote_literal(name), 'NULL')));
    END IF;
    RETURN found_id;
END
$$;
