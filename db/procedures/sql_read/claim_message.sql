-- Procedure:  claim_message
-- Purpose:    Takes one message for a SQL user, as a part of the caller's transaction: its commit is the
--             confirmation, its rollback puts the message back. Leaves no record and takes no fence.
-- Errors:     TL005 CLIENT_NOT_EXISTING, TL007 QUEUE_NOT_EXISTING, invalid_transaction_state (25000) outside
--             READ COMMITTED
-- Locks:      queue's take lock (wait), to the end of the caller's transaction, which is limited from now on (see
--             limit_transaction)
-- Tables:     clients, installation, queues, put_states (read), messages (delete), take_states, receiver_states (insert,
--             delete)
CREATE OR REPLACE FUNCTION telesto.claim_message(
    reader_id bigint,    -- the client who reads
    from_queue bigint,   -- the queue
    from_sender bigint,  -- only messages of this client; 0 for any
    for_context bigint,  -- only messages for the reader alone that carry this; NULL for any
    by_age boolean       -- the oldest first, whatever its priority; else the highest priority first
)
RETURNS SETOF telesto.message
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    caller constant telesto.users := telesto.sql_caller();
    unbounded constant int := 2147483647;
BEGIN
    PERFORM telesto.require_read_committed();
    PERFORM telesto.require_client(caller, reader_id, false);
    PERFORM telesto.require_right_on(caller, 'get', from_queue);
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(from_queue));
    PERFORM telesto.limit_transaction();
    PERFORM FROM telesto.queues AS queue WHERE queue.queue_id = from_queue;
    IF NOT FOUND THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %s', coalesce(from_queue::text, 'NULL')));
    END IF;
    -- Session and number 0: nothing is recorded for the client.
    RETURN QUERY
    SELECT taken.message_id, taken.queue_id, taken.sender_id, taken.receiver_id, taken.priority,
           taken.time_of_arrival, taken.attempt, taken.redelivered, taken.context, taken.body, taken.headers
    FROM telesto.take_selected(1, reader_id, 0, 0, from_queue, 1, unbounded, from_sender,
                               CASE WHEN by_age THEN 2 ELSE 1 END::smallint, for_context, NULL) AS taken;
END
$$;
