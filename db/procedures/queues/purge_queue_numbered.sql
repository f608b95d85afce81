-- Procedure:  purge_queue_numbered
-- Purpose:    Removes messages that wait in a queue, for any receiver, a bounded number in each call. What
--             is handed over is not touched. A purge of several calls keeps its number; its last call leaves
--             the record.
-- Locks:      client (shared, try), the queue's take lock (wait)
-- Tables:     clients, put_states (read), messages, delayed_messages, keyed_messages (delete), take_states (insert,
--             delete), operations (insert, delete), deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.purge_queue_numbered(
    client_id bigint,                 -- who asks
    session bigint,                   -- the session
    number bigint,                    -- the request's number; 0 leaves no record
    confirm_sessions bigint[],        -- per confirmed request: its session
    confirm_numbers bigint[],         -- per confirmed request: its number
    queue_id bigint,                  -- the queue
    max_rows int,                     -- at most this many messages in this call
    removed_before bigint DEFAULT 0,  -- how many earlier calls of this purge removed, for the record
    OUT error smallint,               -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING,
                                      -- QUEUE_NOT_EXISTING, SESSION_FENCED or NUMBER_REPEATED
    OUT removed bigint,               -- how many this call removed
    OUT more boolean                  -- whether to call again
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
BEGIN
    removed := 0;
    more := false;
    error := telesto.fence_client(client_id, session, number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT purged.removed, purged.more INTO removed, more
    FROM telesto.remove_messages(queue_id, max_rows) AS purged;
    IF more IS NULL THEN
        -- Deleted after earlier calls have removed something, it is purged all the same.
        error := CASE WHEN removed_before = 0 THEN :QUEUE_NOT_EXISTING END;
        removed := 0;
        more := false;
    END IF;
    PERFORM telesto.finish_request(client_id, session, CASE WHEN more THEN 0 ELSE number END, :PURGE_QUEUE::smallint,
                                   removed_before + removed, error, confirm_sessions, confirm_numbers);
END
$$;
