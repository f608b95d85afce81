-- Procedure:  create_queue_numbered
-- Purpose:    Creates a queue.
-- Errors:     QUOTA_EXCEEDED, check_violation for a name out of range, and what set_queue_settings raises
-- Locks:      client (shared, try), that of check_dead_letter_queue
-- Tables:     clients (read), queues (insert, update), put_states, take_states (insert), operations (insert, delete),
--             deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.create_queue_numbered(
    client_id bigint,           -- who asks
    session bigint,             -- the session
    number bigint,              -- the request's number
    confirm_sessions bigint[],  -- per confirmed request: its session
    confirm_numbers bigint[],   -- per confirmed request: its number
    name text,                  -- unique name, 1 to 255 characters
    settings jsonb,             -- what is not as usual, see set_queue_settings; NULL or {} for nothing
    OUT error smallint,         -- NULL, BUSY (a takeover is under way: try again), QUEUE_NAME_NOT_UNIQUE,
                                -- CLIENT_NOT_EXISTING, QUEUE_NOT_EXISTING for its dead letter queue, SESSION_FENCED or
                                -- NUMBER_REPEATED
    OUT queue_id bigint,        -- the new queue
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
    error := telesto.check_dead_letter_queue(0, settings);
    IF error IS NULL THEN
        queue_id := telesto.add_queue(name, settings, (SELECT client.user_id FROM telesto.clients AS client
                                                       WHERE client.client_id = create_queue_numbered.client_id));
        error := CASE WHEN queue_id IS NULL THEN :QUEUE_NAME_NOT_UNIQUE END;
    ELSE
        missing_queue := settings ->> 'dead_letter_queue';
    END IF;
    PERFORM telesto.finish_request(client_id, session, number, :CREATE_QUEUE::smallint, coalesce(queue_id, missing_queue), error,
                                   confirm_sessions, confirm_numbers);
END
$$;
