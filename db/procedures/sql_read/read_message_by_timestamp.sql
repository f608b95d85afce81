-- Procedure:  read_message_by_timestamp
-- Purpose:    Takes the oldest message from SQL, whatever its priority: one for anyone or for the reader alone. It is
--             gone when the caller's transaction commits, and back when it does not.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL005 CLIENT_NOT_EXISTING, TL007 QUEUE_NOT_EXISTING, invalid_transaction_state (25000) outside
--             READ COMMITTED
-- Locks:      queue's take lock (wait), to the end of the caller's transaction: nobody else takes from the
--             queue until then. Meant for autocommit or short transactions
-- Tables:     clients, queues, put_states (read), messages (delete), take_states, receiver_states (insert,
--             delete)
CREATE OR REPLACE FUNCTION telesto.read_message_by_timestamp(
    reader_id bigint,             -- the client who reads
    from_queue bigint,            -- the queue
    from_sender bigint DEFAULT 0  -- only messages of this client; 0 for any
)
RETURNS SETOF telesto.message
LANGUAGE sql SECURITY DEFINER
AS $$
SELECT claim.*
FROM telesto.claim_message(reader_id, from_queue, coalesce(from_sender, 0), NULL, true) AS claim
$$;
