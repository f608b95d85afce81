-- Procedure:  update_queue_numbered
-- Purpose:    Changes settings of a queue.
-- Errors:     check_violation, not_null_violation or data_exception for a value that
--             the setting cannot have
-- Locks:      client (shared, try), that of check_dead_letter_queue, the queue's row
-- Tables:     clients (read), queues (update), operations (insert, delete), deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.update_queue_numbered(
    client_id bigint,           -- who asks
    session bigint,             -- the session
    number bigint,              -- the request's number; 0 leaves no record
    confirm_sessions bigint[],  -- per confirmed request: its session
    confirm_numbers bigint[],   -- per confirmed request: its number
    queue_id bigint,            -- the queue
    settings jsonb,             -- what is to change, see set_queue_settings
    OUT error smallint,         -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING,
                                -- QUEUE_NOT_EXISTING (also for its dead letter queue), INVALID_PARAMETER (dead letters
                                -- would come back), SESSION_FENCED or NUMBER_REPEATED
    OUT missing_queue bigint    -- the queue that does not exist, with QUEUE_NOT_EXISTING
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
BEGIN
    error := telesto.fence_client(client_id, session, number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    error := telesto.check_dead_letter_queue(queue_id, settings);
    IF error = :QUEUE_NOT_EXISTING THEN
        missing_queue := settings ->> 'dead_letter_queue';
    ELSIF error IS NULL AND NOT telesto.set_queue_settings(queue_id, settings) THEN
        error := :QUEUE_NOT_EXISTING;
        missing_queue := queue_id;
    END IF;
    PERFORM telesto.finish_request(client_id, session, number, :UPDATE_QUEUE::smallint, nullif(missing_queue, queue_id),
                                   error, confirm_sessions, confirm_numbers);
END
$$;
