-- Procedure:  read_response_message
-- Purpose:    Takes a response from SQL: the first message for the reader alone that carries the context of its
--             request. It is gone when the caller's transaction commits, and back when it does not.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL005 CLIENT_NOT_EXISTING, TL007 QUEUE_NOT_EXISTING, TL012 INVALID_PARAMETER,
--             invalid_transaction_state (25000) outside READ COMMITTED
-- Locks:      queue's take lock (wait), to the end of the caller's transaction: nobody else takes from the
--             queue until then. Meant for autocommit or short transactions
-- Tables:     clients, queues, put_states (read), messages (delete), take_states, receiver_states (insert,
--             delete)
CREATE OR REPLACE FUNCTION telesto.read_response_message(
    reader_id bigint,   -- the client who reads
    from_queue bigint,  -- the queue
    for_context bigint  -- the context that the request carried
)
RETURNS SETOF telesto.message
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
    IF for_context IS NULL THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'a response is found by the context of its request');
    END IF;
    RETURN QUERY
    SELECT claim.* FROM telesto.claim_message(reader_id, from_queue, 0, for_context, false) AS claim;
END
$$;
