-- Procedure:  sweep_expired
-- Purpose:    Removes messages that have expired where they wait; no read returns them any more. They go to the dead
--             letters if their queue says so.
-- Locks:      queues' take locks (wait)
-- Tables:     jobs (read, update), queues (read), messages (delete), dead_letters (insert), take_states (insert,
--             delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.sweep_expired(
    max_rows int,     -- at most this many messages
    OUT done bigint,  -- how many were removed
    OUT more boolean  -- whether there is more to do at once
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    due constant timestamptz := clock_timestamp();
    looked_from constant timestamptz := telesto.looked_from('expired', due);
    last_due timestamptz;
    queues bigint[];
    message_rows tid[];
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
        message_rows := ARRAY(SELECT message.ctid FROM telesto.messages AS message
                              WHERE message.expires_at > looked_from AND message.expires_at <= last_due
                                AND message.queue_id = ANY (queues)
                              ORDER BY message.expires_at);
        WITH gone AS (
            SELECT message.queue_id, count(*) AS n, count(*) FILTER (WHERE message.receiver_id > 0) AS directed
            FROM telesto.messages AS message
            WHERE message.ctid = ANY (message_rows)
            GROUP BY message.queue_id
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
        PERFORM telesto.end_messages(message_rows, NULL, NULL, 'expired');
    END IF;
    PERFORM telesto.look_ended('expired', CASE WHEN more THEN last_due ELSE due END);
END
$$;
