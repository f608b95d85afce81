-- Procedure:  delete_queue_numbered
-- Purpose:    Deletes a queue, at once whatever it holds: its messages are removed later, see
--             sweep_deleted_queues. What is handed over from it stays with the readers.
-- Locks:      client (shared, try), the queue's put and take lock (wait)
-- Tables:     clients (read), queues, put_states, take_states (delete), deleted_queues (insert), operations
--             (insert, delete), deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.delete_queue_numbered(
    client_id bigint,           -- who asks
    session bigint,             -- the session
    number bigint,              -- the request's number; 0 leaves no record
    confirm_sessions bigint[],  -- per confirmed request: its session
    confirm_numbers bigint[],   -- per confirmed request: its number
    queue_id bigint,            -- the queue
    OUT error smallint          -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING,
                                -- QUEUE_NOT_EXISTING, SESSION_FENCED or NUMBER_REPEATED
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
BEGIN
    error := telesto.fence_client(client_id, session, number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    error := CASE WHEN NOT telesto.remove_queue(queue_id) THEN :QUEUE_NOT_EXISTING END;
    PERFORM telesto.finish_request(client_id, session, number, :DELETE_QUEUE::smallint, 0, error,
                                   confirm_sessions, confirm_numbers);
END
$$;
