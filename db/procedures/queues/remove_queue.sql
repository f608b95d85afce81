-- Procedure:  remove_queue
-- Purpose:    Removes a queue and its states and notes it down for the removal of its messages.
-- Returns:
--   boolean                 whether it existed
-- Locks:      the queue's put and take lock (wait)
-- Tables:     queues, put_states, take_states (delete), deleted_queues (insert)
CREATE OR REPLACE FUNCTION telesto.remove_queue(
    queue_id bigint  -- the queue
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock(telesto.put_lock_key(remove_queue.queue_id));
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(remove_queue.queue_id));
    DELETE FROM telesto.queues AS queue WHERE queue.queue_id = remove_queue.queue_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM telesto.put_states AS state WHERE state.queue_id = remove_queue.queue_id;
    DELETE FROM telesto.take_states AS state WHERE state.queue_id = remove_queue.queue_id;
    INSERT INTO telesto.deleted_queues (queue_id) VALUES (remove_queue.queue_id);
    RETURN true;
END
$$;
