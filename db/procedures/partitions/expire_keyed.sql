-- Procedure:  expire_keyed
-- Purpose:    Removes messages of partitions that have expired where they wait. They go to the dead letters if their
--             queue says so.
-- Locks:      queues' take locks (wait)
-- Tables:     jobs (read, update), queues, consumers, leases (read), keyed_messages, partition_arrivals (delete),
--             dead_letters (insert), partitions, take_states (insert, delete), history_calendar (read), history
--             (insert)
CREATE OR REPLACE FUNCTION telesto.expire_keyed(
    max_rows int,     -- at most about this many messages
    OUT done bigint,  -- how many were removed
    OUT more boolean  -- whether there is more to do at once
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    due constant timestamptz := clock_timestamp();
    looked_from constant timestamptz := telesto.looked_from('expired_keyed', due);
    last_due timestamptz;
    queues bigint[];
    gone record;
BEGIN
    SELECT array_agg(DISTINCT message.queue_id ORDER BY message.queue_id), count(*), max(message.expires_at)
    INTO queues, done, last_due
    FROM (SELECT message.queue_id, message.expires_at FROM telesto.keyed_messages AS message
          WHERE message.expires_at > looked_from AND message.expires_at <= due
          ORDER BY message.expires_at
          LIMIT max_rows) AS message;
    more := done = max_rows;
    IF queues IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
        FROM (SELECT unnest(queues) AS queue_id) AS queue;
        FOR gone IN
            SELECT message.queue_id, count(*) AS n, array_agg(message.message_row) AS rows,
                   array_agg(message.sender_id) AS senders, array_agg(message.partition_key) AS keys,
                   array_agg(message.message_id) AS ids
            FROM (SELECT message.*, message.ctid AS message_row FROM telesto.keyed_messages AS message
                  WHERE message.expires_at > looked_from AND message.expires_at <= last_due
                    AND message.queue_id = ANY (queues)
                  ORDER BY message.expires_at) AS message
            GROUP BY message.queue_id
        LOOP
            PERFORM telesto.end_messages(NULL, NULL, gone.rows, 'expired');
            PERFORM telesto.count_hidden(gone.queue_id, gone.n);
            -- Those of a deleted queue go with it.
            IF EXISTS (SELECT FROM telesto.queues AS queue WHERE queue.queue_id = gone.queue_id) THEN
                PERFORM telesto.leave_partitions(gone.queue_id, gone.senders, gone.keys, gone.ids);
            END IF;
        END LOOP;
    END IF;
    PERFORM telesto.look_ended('expired_keyed', CASE WHEN more THEN last_due ELSE due END);
END
$$;
