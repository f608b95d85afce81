-- Procedure:  expire_keyed
-- Purpose:    Removes messages of partitions that have expired where they wait. They go to the dead letters if their
--             queue says so.
-- Errors:     none raised
-- Locks:      queues' take locks (wait)
-- Tables:     jobs (read, update), queues, consumers, leases (read), keyed_messages, partition_arrivals (delete),
--             dead_letters (insert), partitions, take_states (insert, delete), history_calendar (read), history
--             (insert)
CREATE OR REPLACE FUNCTION telesto.expire_keyed(
    max_rows int,     -- at most about so many messages
    OUT done bigint,  -- how many were removed
    OUT more boolean  -- whether there is more to do at once
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    due constant timestamptz := clock_timestamp();
    today constant date := due AT TIME ZONE 'UTC';
    days constant date[] := telesto.known_history_days();
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
            WITH removed AS (
                DELETE FROM telesto.keyed_messages AS message
                WHERE message.ctid = ANY (ARRAY(
                    SELECT message.ctid FROM telesto.keyed_messages AS message
                    WHERE message.expires_at > looked_from AND message.expires_at <= last_due
                      AND message.queue_id = ANY (queues)
                    ORDER BY message.expires_at))
                RETURNING message.*
            ), judged AS (
                SELECT removed.*, queue.yes IS NOT NULL AS burying
                FROM removed
                LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.queues AS queue
                                   WHERE queue.queue_id = removed.queue_id AND queue.bury_expired
                                   LIMIT 1) AS queue ON true
            ), noted AS (
                INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, time_of_arrival,
                                             ended_at, drop_on, ending, put_through, attempt, priority,
                                             redelivered, reason, body)
                SELECT judged.message_id, judged.queue_id, judged.sender_id, 0, judged.context,
                       judged.time_of_arrival, due, telesto.history_day(days, today, judged.history),
                       CASE WHEN judged.burying THEN 'dead' ELSE 'expired' END::telesto.ending,
                       judged.put_through, judged.attempt, judged.priority, judged.redelivered,
                       CASE WHEN judged.burying THEN 'expired' END,
                       CASE WHEN judged.history < 0 THEN judged.body END
                FROM judged
                WHERE judged.history <> 0
            ), buried AS (
                INSERT INTO telesto.dead_letters (queue_id, message_id, receiver_id, sender_id, context, client_id,
                                                  session, number, time_of_arrival, handed_over_at, attempt,
                                                  priority, redelivered, reason, body, partition_key, history,
                                                  put_through, origin)
                SELECT judged.queue_id, judged.message_id, 0, judged.sender_id, judged.context, 0, 0, 0,
                       judged.time_of_arrival, judged.expires_at, judged.attempt, judged.priority,
                       judged.redelivered, 'expired', judged.body, judged.partition_key, judged.history,
                       judged.put_through, judged.origin
                FROM judged
                WHERE judged.burying
            )
            SELECT removed.queue_id, count(*) AS n, array_agg(removed.sender_id) AS senders,
                   array_agg(removed.partition_key) AS keys, array_agg(removed.message_id) AS ids
            FROM removed
            GROUP BY removed.queue_id
        LOOP
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
