-- Procedure:  remove_client
-- Purpose:    Removes a client: gives back what is handed over to it, ends its subscriptions and deletes its
--             records, its sequences and its row. Of which user it was is kept where a quota counts what it has put.
-- Locks:      queues' take locks, topics, subscriptions (wait); the caller holds the client's (exclusive)
-- Tables:     clients (delete), operations, deliveries (delete), messages (insert), take_states,
--             receiver_states, topic_states (insert, delete), subscriptions, positions, publisher_states (delete),
--             users (read), former_clients (insert)
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
    topics bigint[];
    topic_id bigint;
BEGIN
    SELECT array_agg(delivery.session), array_agg(delivery.number), array_agg(delivery.message_id)
    INTO sessions, numbers, message_ids
    FROM telesto.deliveries AS delivery
    WHERE delivery.client_id = remove_client.client_id;
    SELECT back.queue_ids, back.receiver_ids INTO queue_ids, receiver_ids
    FROM telesto.give_back(remove_client.client_id, sessions, numbers, message_ids) AS back;
    topics := ARRAY(SELECT subscription.topic_id FROM telesto.subscriptions AS subscription
                    WHERE subscription.client_id = remove_client.client_id
                    ORDER BY subscription.topic_id);
    -- All topics before the first subscription.
    FOREACH topic_id IN ARRAY topics LOOP
        PERFORM pg_advisory_xact_lock(telesto.topic_lock_key(topic_id));
    END LOOP;
    FOREACH topic_id IN ARRAY topics LOOP
        PERFORM telesto.remove_subscription(remove_client.client_id, topic_id);
    END LOOP;
    DELETE FROM telesto.publisher_states AS state WHERE state.client_id = remove_client.client_id;
    DELETE FROM telesto.operations AS operation WHERE operation.client_id = remove_client.client_id;
    INSERT INTO telesto.former_clients (client_id, user_id, seen_at)
    SELECT client.client_id, client.user_id, clock_timestamp()
    FROM telesto.clients AS client
    JOIN telesto.users AS owner ON owner.user_id = client.user_id
    WHERE client.client_id = remove_client.client_id
      AND (owner.max_stored_messages IS NOT NULL OR owner.max_stored_bytes IS NOT NULL);
    DELETE FROM telesto.clients AS client WHERE client.client_id = remove_client.client_id;
END
$$;
