-- Procedure:  delete_queue
-- Purpose:    Deletes a queue from SQL, as a part of the caller's transaction, whatever it holds: its messages
--             are removed later. What is handed over from it stays with the readers.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL007 QUEUE_NOT_EXISTING, invalid_transaction_state (25000) outside READ COMMITTED
-- Locks:      the queue's put and take lock (wait), to the end of the caller's transaction, which is
--             limited from now on (see limit_transaction). Meant for autocommit or short transactions
-- Tables:     installation (read), queues, put_states, take_states (delete), deleted_queues, audit (insert)
CREATE OR REPLACE FUNCTION telesto.delete_queue(
    queue_id bigint  -- the queue
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
    PERFORM telesto.require_right_on(telesto.sql_caller(), 'configure', queue_id);
    PERFORM telesto.require_read_committed();
    IF queue_id IS NULL OR NOT telesto.remove_queue(queue_id) THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %s', coalesce(queue_id::text, 'NULL')));
    END IF;
    PERFORM telesto.limit_transaction();
    PERFORM telesto.audit_sql('queue_deleted', jsonb_build_object('queue_id', queue_id));
END
$$;
