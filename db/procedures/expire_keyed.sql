-- Procedure:  expire_keyed
-- Purpose:    Removes messages of partitions that have expired where they wait. They go to the dead letters if their
--             queue says so.
-- Parameters:
--   max_rows int            at most about so many messages
-- Returns:
--   done bigint             how many were removed
--   more boolean            whether there is more to do at once
-- Errors:     none raised
-- Locks:      queues' take locks (wait)
-- Tables:     jobs (read, update), queues (read), keyed_messages (delete), dead_letters (insert), take_states (insert,
--             delete)
CREATE OR REPLACE FUNCTION telesto.expire_keyed(max_rows int, OUT done bigint, OUT more boolean)
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
            WITH removed AS (
                DELETE FROM telesto.keyed_messages AS message
                WHERE message.ctid = ANY (ARRAY(
                    SELECT message.ctid FROM telesto.keyed_messages AS message
                    WHERE message.expires_at > looked_from AND message.expires_at <= last_due
                      AND message.queue_id = ANY (queues)
                    ORDER BY message.expires_at))
                RETURNING message.*
            ), buried AS (
                INSERT INTO telesto.dead_letters (queue_id, message_id, receiver_id, sender_id, context, client_id,
                                                  session, number, time_of_arrival, handed_over_at, attempt,
                                                  priority, redelivered, reason, body, partition_key)
                SELECT removed.queue_id, removed.message_id, 0, removed.sender_id, removed.context, 0, 0, 0,
                       removed.time_of_arrival, removed.expires_at, removed.attempt, removed.priority,
                       removed.redelivered, 'expired', removed.body, removed.partition_key
                FROM removed
                CROSS JOIN LATERAL (SELECT FROM telesto.queues AS queue
                                    WHERE queue.queue_id = removed.queue_id AND queue.bury_expired
                                    LIMIT 1) AS queue
            )
            SELECT removed.queue_id, count(*) AS n FROM removed GROUP BY removed.queue_id
        LOOP
            PERFORM telesto.count_hidden(gone.queue_id, gone.n);
        END LOOP;
    END IF;
    PERFORM telesto.look_ended('expired_keyed', CASE WHEN more THEN last_due ELSE due END);
END
$$;
