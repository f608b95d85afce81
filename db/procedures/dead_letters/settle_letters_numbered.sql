-- Procedure:  settle_letters_numbered
-- Purpose:    Sends dead letters back to their queue, or deletes them.
-- Locks:      client (shared, try), the queue's take lock (wait)
-- Tables:     clients (read), dead_letters (delete), messages (insert), take_states, receiver_states (insert, delete),
--             operations (insert, delete), deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.settle_letters_numbered(
    client_id bigint,                 -- who asks
    session bigint,                   -- the session
    number bigint,                    -- the request's number; 0 leaves no record
    confirm_sessions bigint[],        -- per confirmed request: its session
    confirm_numbers bigint[],         -- per confirmed request: its number
    method_id smallint,               -- the packet, for the record
    queue_id bigint,                  -- the queue
    letter_ids bigint[],              -- which ones; one that is not there is passed over. NULL for all
    redriving boolean,                -- whether they are sent back; else deleted
    max_rows int,                     -- at most this many in this call, when all are meant
    settled_before bigint DEFAULT 0,  -- how many earlier calls for this request have settled, for the record, which the
                                      -- last one leaves
    OUT error smallint,               -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING,
                                      -- QUEUE_NOT_EXISTING, SESSION_FENCED or NUMBER_REPEATED
    OUT settled bigint,               -- how many this call has sent back or deleted
    OUT more boolean,                 -- whether there is more to do: call again, under the same number
    OUT queue_ids bigint[],           -- per message that came back: its queue
    OUT receiver_ids bigint[]         -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
BEGIN
    settled := 0;
    more := false;
    error := telesto.fence_client(client_id, session, number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT done.error, done.settled, done.more, done.queue_ids, done.receiver_ids
    INTO error, settled, more, queue_ids, receiver_ids
    FROM telesto.redrive_letters(queue_id, letter_ids, redriving, max_rows) AS done;
    -- Deleted after earlier calls have settled something, the queue has no dead letters any more.
    error := CASE WHEN settled_before = 0 THEN error END;
    PERFORM telesto.finish_request(client_id, session, CASE WHEN more THEN 0 ELSE number END, method_id,
                                   settled_before + settled, error, confirm_sessions, confirm_numbers);
END
$$;
