-- Procedure:  check_dead_letter_queue
-- Purpose:    Whether a queue may have the dead letter queue that settings name: it must exist, and dead letters must
--             not come back to where they died, over however many queues.
-- Returns:
--   smallint                NULL, QUEUE_NOT_EXISTING or INVALID_PARAMETER for one in a ring
-- Errors:     data_exception for what is no id
-- Locks:      the put lock of queue 0, which stands for all dead letter queues: changes come one after the other
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.check_dead_letter_queue(
    of_queue bigint,  -- the queue; 0 for one that is about to be created
    settings jsonb    -- what is to change, see set_queue_settings
)
RETURNS smallint
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    wanted constant bigint := settings ->> 'dead_letter_queue';
    queue bigint := wanted;
BEGIN
    IF wanted IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(telesto.put_lock_key(0));
    WHILE queue IS NOT NULL LOOP
        IF queue = of_queue THEN
            RETURN :INVALID_PARAMETER;
        END IF;
        SELECT next.dead_letter_queue INTO queue FROM telesto.queues AS next WHERE next.queue_id = queue;
        IF NOT FOUND THEN
            -- One further on may have been deleted.
            RETURN CASE WHEN EXISTS (SELECT FROM telesto.queues AS first WHERE first.queue_id = wanted)
                        THEN NULL ELSE :QUEUE_NOT_EXISTING END;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
