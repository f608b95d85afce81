-- Procedure:  join_queue
-- Purpose:    Makes a consumer of a queue, which lives as long as the connection that it belongs to. What the
--             client's earlier sessions still consume from the queue is given back.
-- Locks:      client (shared, try), the queue's take lock (wait)
-- Tables:     clients, queues (read), consumers (insert, delete), leases (delete), messages (insert), dead_letters
--             (insert), take_states, receiver_states (insert, delete),
--             history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.join_queue(
    client_id bigint,              -- who joins
    session bigint,                -- its current session
    middleware_id bigint,          -- the middleware that claims for it
    queue_id bigint,               -- the queue
    paused boolean DEFAULT false,  -- whether it has no credit at first
    OUT error smallint,            -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING,
                                   -- QUEUE_NOT_EXISTING or SESSION_FENCED
    OUT consumer_id bigint,        -- the consumer, never used before
    OUT lease_ms int,              -- how long it may take for a message, in milliseconds
    OUT late_after_ms int,         -- an answer that takes longer is late, in milliseconds
    OUT late_limit int,            -- after so many late answers within late_window_ms it is slow; 0 for never
    OUT late_window_ms int,        -- in milliseconds
    OUT fail_limit int,            -- after so many failures in a row it has to join again; 0 for never
    OUT queue_ids bigint[],        -- per message that came back: its queue
    OUT receiver_ids bigint[]      -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    earlier bigint[];
BEGIN
    error := telesto.fence_client(join_queue.client_id, join_queue.session, 0);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(join_queue.queue_id));
    SELECT queue.lease_ms, coalesce(queue.late_after_ms, greatest(1, queue.lease_ms / 3)), queue.late_limit,
           queue.late_window_ms, queue.fail_limit
    INTO lease_ms, late_after_ms, late_limit, late_window_ms, fail_limit
    FROM telesto.queues AS queue
    WHERE queue.queue_id = join_queue.queue_id;
    IF NOT FOUND THEN
        error := :QUEUE_NOT_EXISTING;
        RETURN;
    END IF;
    earlier := ARRAY(SELECT consumer.consumer_id FROM telesto.consumers AS consumer
                     WHERE consumer.queue_id = join_queue.queue_id AND consumer.client_id = join_queue.client_id
                       AND consumer.session <> join_queue.session);
    SELECT back.queue_ids, back.receiver_ids INTO queue_ids, receiver_ids
    FROM telesto.end_consumers(join_queue.queue_id, earlier, true, NULL) AS back;
    consumer_id := nextval('telesto.consumer_ids');
    INSERT INTO telesto.consumers (queue_id, consumer_id, client_id, session, middleware_id, epoch, paused)
    VALUES (join_queue.queue_id, join_queue.consumer_id, join_queue.client_id, join_queue.session,
            join_queue.middleware_id, 0, join_queue.paused);
END
$$;
