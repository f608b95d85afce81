-- Procedure:  release_batch
-- Purpose:    Gives messages that were handed over to a client and are unconfirmed back to their queues, to
--             their old place, marked redelivered. What is no longer unconfirmed is passed over; the
--             transaction writes all the same, for a standby may not know of that yet.
-- Locks:      client (shared, try), queues' take locks (wait)
-- Tables:     clients (read), deliveries (delete), messages (insert), take_states, receiver_states (insert,
--             delete)
CREATE OR REPLACE FUNCTION telesto.release_batch(
    client_id bigint,          -- who gives back
    session bigint,            -- its current session
    sessions bigint[],         -- per message: the session of the read
    numbers bigint[],          -- per message: the read's number
    message_ids bigint[],      -- per message: its id; 0 for all of the read
    OUT error smallint,        -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING or SESSION_FENCED
    OUT queue_ids bigint[],    -- per message that came back: its queue
    OUT receiver_ids bigint[]  -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
BEGIN
    error := telesto.fence_client(client_id, session, 0);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT back.queue_ids, back.receiver_ids INTO queue_ids, receiver_ids
    FROM telesto.give_back(client_id, sessions, numbers, message_ids) AS back;
    IF queue_ids IS NULL THEN
        PERFORM pg_logical_emit_message(true, 'telesto', '');
    END IF;
END
$$;
