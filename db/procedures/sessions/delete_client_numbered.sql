-- Procedure:  delete_client_numbered
-- Purpose:    Deletes a client. What the request confirms is done; what else was handed over to it goes back to
--             its queues, marked redelivered. Messages addressed to it stay. That the client is gone is all
--             the record there is.
-- Locks:      client (exclusive, try), queues' take locks, topics, subscriptions (wait)
-- Tables:     clients (delete), operations, deliveries (delete), messages (insert), take_states,
--             receiver_states, topic_states (insert, delete), subscriptions, positions, publisher_states (delete)
CREATE OR REPLACE FUNCTION telesto.delete_client_numbered(
    client_id bigint,           -- who asks
    session bigint,             -- the session
    number bigint,              -- the request's number
    confirm_sessions bigint[],  -- per confirmed request: its session
    confirm_numbers bigint[],   -- per confirmed request: its number
    OUT error smallint,         -- NULL, BUSY (another transaction of the client is running: try again),
                                -- CLIENT_NOT_EXISTING, SESSION_FENCED or NUMBER_REPEATED
    OUT queue_ids bigint[],     -- per message that came back: its queue
    OUT receiver_ids bigint[]   -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
BEGIN
    IF NOT pg_try_advisory_xact_lock(telesto.client_lock_key(client_id)) THEN
        error := :BUSY;
        RETURN;
    END IF;
    error := telesto.fence_client(client_id, session, number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM telesto.delete_confirmed(ARRAY[client_id],
                                     array_fill(client_id, ARRAY[cardinality(confirm_numbers)]),
                                     confirm_sessions, confirm_numbers, false);
    SELECT removed.queue_ids, removed.receiver_ids INTO queue_ids, receiver_ids
    FROM telesto.remove_client(client_id) AS removed;
END
$$;
