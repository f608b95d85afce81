-- Procedure:  list_queues
-- Purpose:    A page of the queues, by rising id.
-- Errors:     TL032 PERMISSION_DENIED
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.list_queues(
    after_id bigint,             -- the last queue of the page before; 0 for the first page
    max_rows int,                -- at most this many
    visible text[] DEFAULT NULL  -- only those whose name matches one of these patterns; NULL for all
)
RETURNS TABLE (
    queue_id bigint,     -- a queue
    name text,           -- its name
    max_messages bigint  -- its bound; NULL without one
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    -- An application sees no more than its user, whatever it asks for.
    shown constant text[] := coalesce(telesto.seen_patterns(telesto.sql_caller()), visible);
    likes constant text[] := telesto.like_patterns(shown);
BEGIN
    RETURN QUERY
    SELECT queue.queue_id, queue.name, queue.max_messages
    FROM telesto.queues AS queue
    WHERE queue.queue_id > after_id AND (shown IS NULL OR queue.name LIKE ANY (likes))
    ORDER BY queue.queue_id
    LIMIT max_rows;
END
$$;
