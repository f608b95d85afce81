-- Procedure:  nack_numbered
-- Purpose:    Gives leased messages back to their queues; one that is not the client's any more is answered
--             LEASE_LOST.
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
                                      -- given; one that failed was. NULL when this is not known: then all are marked
    reason text,                      -- why those that failed did, or NULL
    rejected boolean,                 -- they cannot be processed at all: those that failed are dead at once
    OUT error smallint,               -- NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING,
                                      -- SESSION_FENCED or NUMBER_REPEATED
    OUT errors smallint[],            -- per message: NULL or LEASE_LOST
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
    error := telesto.fence_client(nack_numbered.client_id, nack_numbered.session, nack_numbered.number);
    IF error IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT lease.queues, lease.lease_rows INTO queues, lease_rows
    FROM telesto.lock_leases(consumer_ids, lease_ids, message_ids, nack_numbered.client_id) AS lease;
    errors := ARRAY(SELECT CASE WHEN lease.lease_row IS NULL THEN :LEASE_LOST END
                    FROM (SELECT unnest(lease_rows) AS lease_row) AS lease);
    SELECT back.queue_ids, back.receiver_ids, back.follower_consumers, back.follower_leases, back.follower_ids
    INTO queue_ids, receiver_ids, follower_consumers, follower_leases, follower_ids
    FROM telesto.return_leases(queues, array_remove(lease_rows, NULL), failed, begun_ids, 'failed',
                               CASE WHEN failed THEN delay_ms ELSE coalesce(delay_ms, 0) END,
                               reason, rejected) AS back;
    IF nack_numbered.number <> 0 THEN
        INSERT INTO telesto.operations (client_id, session, number, method_id, related_ids, errors)
        VALUES (nack_numbered.client_id, nack_numbered.session, nack_numbered.number, :NACK, message_ids,
                CASE WHEN :LEASE_LOST = ANY (errors) THEN errors END);
    END IF;
    PERFORM telesto.delete_confirmed(
        ARRAY[nack_numbered.client_id],
        array_fill(nack_numbered.client_id, ARRAY[cardinality(confirm_numbers)]),
        confirm_sessions, confirm_numbers, false);
END
$$;
