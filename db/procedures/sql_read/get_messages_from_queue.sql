-- Procedure:  get_messages_from_queue
-- Purpose:    Shows a SQL user the messages of a queue that a client may read, by rising id, without taking
--             them.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL005 CLIENT_NOT_EXISTING, TL007 QUEUE_NOT_EXISTING
-- Tables:     clients, queues, take_states, receiver_states, messages (read)
CREATE OR REPLACE FUNCTION telesto.get_messages_from_queue(
    client_id bigint,                   -- the client
    from_queue bigint,                  -- the queue
    after_message_id bigint DEFAULT 0,  -- only messages above this id, for the next page
    max_rows int DEFAULT 1000,          -- at most this many
    max_bytes bigint DEFAULT 16777216   -- at most this many bytes of bodies; a first message comes whatever its size
)
RETURNS SETOF telesto.message
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    caller constant telesto.users := telesto.sql_caller();
BEGIN
    PERFORM telesto.require_client(caller, client_id, false);
    PERFORM telesto.require_right_on(caller, 'get', from_queue);
    PERFORM FROM telesto.queues AS queue WHERE queue.queue_id = from_queue;
    IF NOT FOUND THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %s', coalesce(from_queue::text, 'NULL')));
    END IF;
    RETURN QUERY
    SELECT page.message_id, page.queue_id, page.sender_id, page.receiver_id, page.priority, page.time_of_arrival,
           page.attempt, page.redelivered, page.context, page.body, page.headers
    FROM telesto.browse_messages(client_id, from_queue, after_message_id, max_rows, max_bytes) AS page
    WHERE page.error IS NULL;
END
$$;
