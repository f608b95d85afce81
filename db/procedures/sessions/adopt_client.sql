-- Procedure:  adopt_client
-- Purpose:    Gives a client of nobody, or of a user that is gone, to a user. What is handed over to it from queues that the
--             user may not read, or that are gone, is given back: it was handed to somebody else.
-- Errors:     TL023 OVERLOADED (the user has as many clients as it may)
-- Locks:      the user's row, queues' take locks (wait); the caller holds the client's
-- Tables:     users (read), clients (update), queues (read), deliveries (delete), messages (insert), take_states,
--             receiver_states (insert, delete), history (insert)
CREATE OR REPLACE FUNCTION telesto.adopt_client(
    client_id bigint,          -- the client
    new_user bigint,           -- the user
    readable text[],           -- patterns of the queues that the user may read
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
    PERFORM telesto.require_quota(new_user, 'clients');
    UPDATE telesto.clients AS client SET user_id = new_user WHERE client.client_id = adopt_client.client_id;
    SELECT array_agg(delivery.session), array_agg(delivery.number), array_agg(delivery.message_id)
    INTO sessions, numbers, message_ids
    FROM telesto.deliveries AS delivery
    WHERE delivery.client_id = adopt_client.client_id
      AND NOT EXISTS (SELECT FROM telesto.queues AS queue
                      WHERE queue.queue_id = delivery.queue_id AND telesto.name_matches(readable, queue.name));
    IF message_ids IS NOT NULL THEN
        SELECT back.queue_ids, back.receiver_ids INTO queue_ids, receiver_ids
        FROM telesto.give_back(client_id, sessions, numbers, message_ids) AS back;
    END IF;
END
$$;
