-- Procedure:  nack_numbered
-- Purpose:    Gives leased messages back to their queues; one that is not the client's any more is answered
--             LEASE_LOST.
-- Errors:     none raised
-- Locks:      client (shared, try), queues' take locks (wait)
-- Tables:     clients, queues, consumers (read), leases (delete), messages, keyed_messages, delayed_messages,
--             dead_letters (insert), take_states, receiver_states, partitions (insert, delete), operations (insert,
--             delete), deliveries (delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.nack_numbered(
    client_id bigint,                 -- who gives back
    session bigint,                   -- the session
    number bigint,                    -- the request's number; 0 leaves no record
    confirm_sessions bigint[],        -- per confirmed request: its session
    confirm_numbers bigint[],         -- per confirmed request: its number
    consumer_ids bigint[],            -- per message: the consumer that got it
    lease_ids bigint[],               -- per message: the lease
    message_ids bigint[],             -- per message: its id
    failed boolean,                   -- whether this counts as an attempt that failed
    delay_ms bigint,                  -- how long they wait before they can be read again, in milliseconds; NULL: after
                                      -- a failed attempt as their queue's backoff says, else not at all
    begun_ids bigint[],               -- which of them, and of those that come back with them, the application was
                                      -- given; one that failed was
    OUT error smallint,               -- NULL, -1 (a takeover is under way: try again), CLIENT_NOT_EXISTING (5),
                                      -- SESSION_FENCED (20) or NUMBER_REPEATED (36)
    OUT errors smallint[],            -- per message: NULL or LEASE_LOST (27)
    OUT queue_ids bigint[],           -- per message that can be read again: its queue
    OUT receiver_ids bigint[],        -- per message that can be read again: for whom; 0 for anyone
    OUT follower_consumers bigint[],  -- per message of a partition that came back with one before it: the consumer that
                                      -- had it
    OUT follower_leases bigint[],     -- per message that came back with another: its lease
    OUT follower_ids bigint[]         -- per message that came back with another: its id
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    queues bigint[];
    lease_rows tid[];
BEGIN
    PERFORM telesto.require_read_committed();
    error := telesto.fence_client(nack_numbered.client_id, nack_numbered.session, nack_numbered.number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(DISTINCT lease.queue_id) INTO queues
    FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(lease_ids) AS lease_id,
                 unnest(message_ids) AS message_id) AS item
    CROSS JOIN LATERAL (SELECT lease.queue_id FROM telesto.leases AS lease
                        WHERE lease.consumer_id = item.consumer_id AND lease.lease_id = item.lease_id
                          AND lease.message_id = item.message_id
                        LIMIT 1) AS lease;
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
    FROM (SELECT unnest(queues) AS queue_id ORDER BY 1) AS queue;

    -- By key and not by place: they may have been ended while the locks were waited for.
    SELECT array_agg(CASE WHEN lease.ctid IS NULL THEN :LEASE_LOST END ORDER BY item.i),
           array_agg(lease.ctid) FILTER (WHERE lease.ctid IS NOT NULL)
    INTO errors, lease_rows
    FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(lease_ids) AS lease_id,
                 unnest(message_ids) AS message_id, generate_series(1, cardinality(consumer_ids)) AS i) AS item
    LEFT JOIN LATERAL (SELECT lease.ctid FROM telesto.leases AS lease
                       WHERE lease.consumer_id = item.consumer_id AND lease.lease_id = item.lease_id
                         AND lease.message_id = item.message_id AND lease.client_id = nack_numbered.client_id
                         AND lease.queue_id = ANY (queues)
                       LIMIT 1
                       FOR UPDATE SKIP LOCKED) AS lease ON true;
    SELECT back.queue_ids, back.receiver_ids, back.follower_consumers, back.follower_leases, back.follower_ids
    INTO queue_ids, receiver_ids, follower_consumers, follower_leases, follower_ids
    FROM telesto.return_leases(queues, coalesce(lease_rows, '{}'), failed, begun_ids, 'failed',
                               CASE WHEN failed THEN delay_ms ELSE coalesce(delay_ms, 0) END) AS back;
    IF nack_numbered.number <> 0 THEN
        INSERT INTO telesto.operations (client_id, session, number, method_id, related_ids, errors)
        VALUES (nack_numbered.client_id, nack_numbered.session, nack_numbered.number, 89, message_ids,
                CASE WHEN 27 = ANY (errors) THEN errors END);
    END IF;
    PERFORM telesto.delete_confirmed(
        ARRAY[nack_numbered.client_id],
        array_fill(nack_numbered.client_id, ARRAY[cardinality(confirm_numbers)]),
        confirm_sessions, confirm_numbers, false);
END
$$;
