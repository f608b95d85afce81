-- Procedure:  remove_client
-- Purpose:    Removes a client: gives back what is handed over to it, ends its subscriptions and deletes its
--             records and its row.
-- Errors:     none raised
-- Locks:      queues' take locks, topics, subscriptions (wait); the caller holds the client's (exclusive)
-- Tables:     clients (delete), operations, deliveries (delete), messages (insert), take_states,
--             receiver_states, topic_states (insert, delete), subscriptions, positions, publisher_states (delete)
CREATE OR REPLACE FUNCTION telesto.remove_client(
    client_id bigint,          -- the client
    OUT queue_ids bigint[],    -- per message that came back: its queue
    OUT receiver_ids bigint[]  -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    sessions bigint[];
    numbers bigint[];
    message_ids bigint[];
BEGIN
    SELECT array_agg(delivery.session), array_agg(delivery.number), array_agg(delivery.message_id)
    INTO sessions, numbers, message_ids
    FROM telesto.deliveries AS delivery
    WHERE delivery.client_id = remove_client.client_id;
    SELECT back.queue_ids, back.receiver_ids INTO queue_ids, receiver_ids
    FROM telesto.give_back(remove_client.client_id, sessions, numbers, message_ids) AS back;
    PERFORM telesto.remove_subscriptions(remove_client.client_id);
    DELETE FROM telesto.operations AS operation WHERE operation.client_id = remove_client.client_id;
    DELETE FROM telesto.clients AS client WHERE client.client_id = remove_client.client_id;
END
$$;
