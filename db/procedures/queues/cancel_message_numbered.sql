-- Procedure:  cancel_message_numbered
-- Purpose:    Removes a message that waits in a queue, ready, delayed or in a partition. One that a client has is
--             not touched.
-- Locks:      client (shared, try), the queue's take lock (wait)
-- Tables:     clients, queues, put_states, consumers, leases (read), messages, delayed_messages, keyed_messages,
--             partition_arrivals (delete), partitions, take_states (insert, delete), operations (insert, delete),
--             deliveries (delete), history_calendar (read), history, dead_letters (insert)
CREATE OR REPLACE FUNCTION telesto.cancel_message_numbered(
    client_id bigint,           -- who asks
    session bigint,             -- the session
    number bigint,              -- the request's number; 0 leaves no record
    confirm_sessions bigint[],  -- per confirmed request: its session
    confirm_numbers bigint[],   -- per confirmed request: its number
    queue_id bigint,            -- the queue
    message_id bigint,          -- the message
    max_probes int,             -- it is looked for in at most this many look-ups
    OUT error smallint,         -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING,
                                -- QUEUE_NOT_EXISTING, SESSION_FENCED, NUMBER_REPEATED or MESSAGE_NOT_EXISTING (it was
                                -- not looked for everywhere)
    OUT cancelled boolean       -- whether it waited there
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    waiting record;
    state record;
    partition record;
    directed boolean;
BEGIN
    cancelled := false;
    error := telesto.fence_client(client_id, session, number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    -- Without the lock first: what is not there need not keep others from the queue while it is looked for.
    SELECT * INTO waiting FROM telesto.find_waiting(message_id, queue_id, max_probes);
    IF waiting.message_row IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue_id));
        SELECT * INTO waiting FROM telesto.find_waiting(message_id, queue_id, max_probes);
    END IF;
    SELECT taken.ctid AS state_row, taken.* INTO state
    FROM telesto.take_states AS taken
    WHERE taken.queue_id = cancel_message_numbered.queue_id
    ORDER BY taken.version DESC
    LIMIT 1;
    IF NOT FOUND THEN
        error := :QUEUE_NOT_EXISTING;
    ELSIF NOT waiting.complete THEN
        error := :MESSAGE_NOT_EXISTING;
    ELSIF waiting.message_row IS NOT NULL THEN
        cancelled := true;
        SELECT message.receiver_id > 0 INTO directed
        FROM telesto.messages AS message
        WHERE waiting.found_in = 'messages' AND message.ctid = waiting.message_row;
        SELECT message.sender_id, message.partition_key INTO partition
        FROM telesto.keyed_messages AS message
        WHERE waiting.found_in = 'keyed_messages' AND message.ctid = waiting.message_row;
        PERFORM telesto.end_messages(
            CASE waiting.found_in WHEN 'messages' THEN ARRAY[waiting.message_row] END,
            CASE waiting.found_in WHEN 'delayed_messages' THEN ARRAY[waiting.message_row] END,
            CASE waiting.found_in WHEN 'keyed_messages' THEN ARRAY[waiting.message_row] END, 'cancelled'::telesto.ending);
        IF waiting.found_in = 'keyed_messages' THEN
            PERFORM telesto.leave_partitions(queue_id, ARRAY[partition.sender_id], ARRAY[partition.partition_key],
                                             ARRAY[message_id]);
        END IF;
        INSERT INTO telesto.take_states (queue_id, version, total, directed_total, hidden_total, lower)
        VALUES (queue_id, state.version + 1, state.total + 1,
                state.directed_total + coalesce(directed, false)::int,
                state.hidden_total + (waiting.found_in <> 'messages')::int, state.lower);
        DELETE FROM telesto.take_states AS old WHERE old.ctid = state.state_row;
    END IF;
    PERFORM telesto.finish_request(client_id, session, number, :CANCEL_MESSAGE::smallint, cancelled::int::bigint, error,
                                   confirm_sessions, confirm_numbers);
END
$$;
