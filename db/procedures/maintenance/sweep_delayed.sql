-- Procedure:  sweep_delayed
-- Purpose:    Moves messages whose time has come to where they can be read, under their old ids.
-- Locks:      queues' take locks (wait)
-- Tables:     jobs (read, update), delayed_messages (delete), messages (insert), take_states, receiver_states
--             (insert, delete)
CREATE OR REPLACE FUNCTION telesto.sweep_delayed(
    max_rows int,              -- at most this many messages
    latest timestamptz,        -- the clock of this server was not beyond this, unless it was set; NULL when that is not
                               -- known
    OUT done bigint,           -- how many were moved
    OUT more boolean,          -- whether there is more to do at once
    OUT queue_ids bigint[],    -- per message: its queue
    OUT receiver_ids bigint[]  -- per message: for whom; 0 for anyone
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    due constant timestamptz := least(clock_timestamp(), latest);
    looked_from constant timestamptz := telesto.looked_from('delayed', due);
    last_due timestamptz;
    queues bigint[];
    state_rows tid[];
    priorities smallint[];
    message_ids bigint[];
BEGIN
    SELECT array_agg(DISTINCT message.queue_id ORDER BY message.queue_id), count(*), max(message.due_at)
    INTO queues, done, last_due
    FROM (SELECT message.queue_id, message.due_at FROM telesto.delayed_messages AS message
          WHERE message.due_at > looked_from AND message.due_at <= due
          ORDER BY message.due_at
          LIMIT max_rows) AS message;
    more := done = max_rows;
    IF queues IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
        FROM (SELECT unnest(queues) AS queue_id) AS queue;
        -- A queue without a state does not exist (any more).
        SELECT array_agg(state.ctid) INTO state_rows
        FROM (SELECT unnest(queues) AS queue_id) AS queue
        LEFT JOIN LATERAL (SELECT state.ctid FROM telesto.take_states AS state
                           WHERE state.queue_id = queue.queue_id
                           ORDER BY state.version DESC
                           LIMIT 1) AS state ON true;
        WITH removed AS (
            DELETE FROM telesto.delayed_messages AS message
            WHERE message.ctid = ANY (ARRAY(
                SELECT message.ctid FROM telesto.delayed_messages AS message
                WHERE message.due_at > looked_from AND message.due_at <= last_due AND message.queue_id = ANY (queues)
                ORDER BY message.due_at))
            RETURNING message.*
        ), placed AS (
            INSERT INTO telesto.messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                          time_of_arrival, attempt, redelivered, body, headers, expires_at, history,
                                          put_through, origin, failed_by, kept_until)
            SELECT removed.queue_id, removed.receiver_id, removed.priority, removed.message_id, removed.sender_id,
                   removed.context, removed.time_of_arrival, removed.attempt, removed.redelivered, removed.body,
                   removed.headers,
                   removed.expires_at, removed.history, removed.put_through, removed.origin, removed.failed_by,
                   removed.kept_until
            FROM removed
            WHERE state_rows[telesto.sorted_index(removed.queue_id, queues)] IS NOT NULL
            RETURNING queue_id, receiver_id, priority, message_id
        )
        SELECT array_agg(placed.queue_id), array_agg(placed.receiver_id), array_agg(placed.priority),
               array_agg(placed.message_id)
        INTO queue_ids, receiver_ids, priorities, message_ids
        FROM placed;
        PERFORM telesto.lower_bounds(queues, state_rows, queue_ids, receiver_ids, priorities, message_ids,
                                     surfaced => true);
    END IF;
    PERFORM telesto.look_ended('delayed', CASE WHEN more THEN last_due ELSE due END);
END
$$;
