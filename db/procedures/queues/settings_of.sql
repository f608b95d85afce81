-- Procedure:  settings_of
-- Purpose:    The settings of a queue: every column of queues that does not say which queue it is.
-- Returns:
--   jsonb  the settings by their names; NULL when there is no such queue
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.settings_of(
    queue_id bigint  -- the queue
)
RETURNS jsonb
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
BEGIN
    RETURN (SELECT to_jsonb(queue) - '{queue_id, name, created_at, user_id}'::text[]
            FROM telesto.queues AS queue
            WHERE queue.queue_id = settings_of.queue_id);
END
$$;
