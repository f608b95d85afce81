-- Procedure:  sweep_expired
-- Purpose:    Removes messages that have expired where they wait; nobody reads them any more. They go to the dead
--             letters if their queue says so.
-- Errors:     none raised
-- Locks:      queues' take locks (wait)
-- Tables:     jobs (read, update), queues (read), messages (delete), dead_letters (insert), take_states (insert,
--             delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.sweep_expired(
    max_rows int,     -- at most so many messages
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
    looked_from constant timestamptz := telesto.looked_from('expired', due);
    last_due timestamptz;
    queues bigint[];
    burying boolean[];
BEGIN
    SELECT array_agg(DISTINCT message.queue_id ORDER BY message.queue_id), count(*), max(message.expires_at)
    INTO queues, done, last_due
    FROM (SELECT message.queue_id, message.expires_at FROM telesto.messages AS message
          WHERE message.expires_at > looked_from AND message.expires_at <= due
          ORDER BY message.expires_at
          LIMIT max_rows) AS message;
    more := done = max_rows;
    IF queues IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
        FROM (SELECT unnest(queues) AS queue_id) AS queue;
        SELECT array_agg(queue.bury_expired) INTO burying
        FROM (SELECT unnest(queues) AS queue_id) AS wanted
        LEFT JOIN LATERAL (SELECT queue.bury_expired FROM telesto.queues AS queue
                           WHERE queue.queue_id = wanted.queue_id
                           LIMIT 1) AS queue ON true;
        WITH removed AS (
            DELETE FROM telesto.messages AS message
            WHERE message.ctid = ANY (ARRAY(
                SELECT message.ctid FROM telesto.messages AS message
                WHERE message.expires_at > looked_from AND message.expires_at <= last_due
                  AND message.queue_id = ANY (queues)
                ORDER BY message.expires_at))
            RETURNING message.*
        ), noted AS (
            INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, time_of_arrival,
                                         ended_at, drop_on, ending, put_through, attempt, priority, redelivered,
                                         reason, body)
            SELECT removed.message_id, removed.queue_id, removed.sender_id, removed.receiver_id, removed.context,
                   removed.time_of_arrival, due, telesto.history_day(days, today, removed.history),
                   CASE WHEN burying[telesto.sorted_index(removed.queue_id, queues)] THEN 'dead'
                        ELSE 'expired' END::telesto.ending,
                   removed.put_through, removed.attempt, removed.priority, removed.redelivered,
                   CASE WHEN burying[telesto.sorted_index(removed.queue_id, queues)] THEN 'expired' END,
                   CASE WHEN removed.history < 0 THEN removed.body END
            FROM removed
            WHERE removed.history <> 0
        ), buried AS (
            INSERT INTO telesto.dead_letters (queue_id, message_id, receiver_id, sender_id, context, client_id,
                                              session, number, time_of_arrival, handed_over_at, attempt, priority,
                                              redelivered, reason, body, history, put_through, origin)
            SELECT removed.queue_id, removed.message_id, removed.receiver_id, removed.sender_id, removed.context, 0, 0, 0,
                   removed.time_of_arrival, removed.expires_at, removed.attempt, removed.priority,
                   removed.redelivered, 'expired', removed.body, removed.history, removed.put_through,
                   removed.origin
            FROM removed
            WHERE burying[telesto.sorted_index(removed.queue_id, queues)]
        ), gone AS (
            SELECT removed.queue_id, count(*) AS n, count(*) FILTER (WHERE removed.receiver_id > 0) AS directed
            FROM removed
            GROUP BY removed.queue_id
        ), replaced AS (
            DELETE FROM telesto.take_states AS state
            USING gone
            WHERE state.ctid = ANY (ARRAY(SELECT newest.ctid
                                          FROM (SELECT unnest(queues) AS queue_id) AS queue
                                          CROSS JOIN LATERAL (SELECT newest.ctid FROM telesto.take_states AS newest
                                                              WHERE newest.queue_id = queue.queue_id
                                                              ORDER BY newest.version DESC
                                                              LIMIT 1) AS newest))
              AND state.queue_id = gone.queue_id
            RETURNING state.*, gone.n, gone.directed
        )
        INSERT INTO telesto.take_states (queue_id, version, total, directed_total, hidden_total, lower)
        SELECT replaced.queue_id, replaced.version + 1, replaced.total + replaced.n,
               replaced.directed_total + replaced.directed, replaced.hidden_total, replaced.lower
        FROM replaced;
    END IF;
    PERFORM telesto.look_ended('expired', CASE WHEN more THEN last_due ELSE due END);
END
$$;
