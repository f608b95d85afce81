-- Procedure:  return_waiting
-- Purpose:    Gives back messages that were not begun in time, at consumers that are silent. It counts as no
--             attempt; they are marked redelivered, since their begin may be on its way.
-- Locks:      queues' take locks (wait). Leases that another transaction ends are left to it
-- Tables:     queues, consumers (read), leases (delete), messages, keyed_messages (insert), take_states, receiver_states,
--             partitions (insert, delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.return_waiting(
    consumer_ids bigint[],            -- per message: the consumer that got it
    lease_ids bigint[],               -- per message: the lease
    message_ids bigint[],             -- per message: its id; one that is gone is passed over
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
BEGIN
    PERFORM telesto.require_read_committed();
    SELECT back.queue_ids, back.receiver_ids, back.follower_consumers, back.follower_leases, back.follower_ids
    INTO queue_ids, receiver_ids, follower_consumers, follower_leases, follower_ids
    FROM telesto.lock_leases(consumer_ids, lease_ids, message_ids, NULL) AS lease
    CROSS JOIN LATERAL telesto.return_leases(lease.queues, array_remove(lease.lease_rows, NULL), false, NULL, 'late', 0)
               AS back;
END
$$;
