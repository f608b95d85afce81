-- Procedure:  require_right_on
-- Purpose:    The same for a queue by its id. What the user may not see is to it as if it did not exist.
-- Errors:     TL007 QUEUE_NOT_EXISTING, TL032 PERMISSION_DENIED
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.require_right_on(
    caller telesto.users,  -- see sql_caller
    wanted text,           -- the right: configure, put, get or admin
    queue_id bigint        -- the queue; one that does not exist is for the caller to refuse
)
RETURNS void
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    queue_name text;
BEGIN
    -- A monitor, who sees all, has not every right.
    IF caller.user_id IS NULL THEN
        RETURN;
    END IF;
    SELECT queue.name INTO queue_name
    FROM telesto.queues AS queue
    WHERE queue.queue_id = require_right_on.queue_id AND (caller.monitor OR telesto.name_matches(telesto.seen_patterns(caller), queue.name));
    IF queue_name IS NULL THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %s', coalesce(queue_id::text, 'NULL')));
    END IF;
    PERFORM telesto.require_right(caller, wanted, queue_name);
END
$$;
