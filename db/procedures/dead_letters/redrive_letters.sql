-- Procedure:  redrive_letters
-- Purpose:    Sends dead letters back to their queue, under their old ids and as if never attempted, or deletes
--             them. One of a partition comes before what waits there. What expired does not expire again. They are exempt from the queue's bound.
-- Locks:      the queue's take lock (wait)
-- Tables:     dead_letters (delete), consumers, leases (read), messages, keyed_messages (insert), take_states,
--             receiver_states, partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.redrive_letters(
    from_queue bigint,         -- the queue
    letter_ids bigint[],       -- which ones; one that is not there is passed over. NULL for all
    redriving boolean,         -- whether they are sent back; else deleted
    max_rows int,              -- at most this many
    OUT error smallint,        -- NULL or QUEUE_NOT_EXISTING; dead letters of a queue that is gone can be deleted
    OUT settled bigint,        -- how many were sent back or deleted
    OUT more boolean,          -- whether there may be more
    OUT queue_ids bigint[],    -- per message that came back: its queue
    OUT receiver_ids bigint[]  -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    letter_rows tid[];
    state_row tid;
    priorities smallint[];
    message_ids bigint[];
    hidden boolean[];
    senders bigint[];
    keys text[];
    key_ids bigint[];
BEGIN
    settled := 0;
    more := false;
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(from_queue));
    SELECT state.ctid INTO state_row
    FROM telesto.take_states AS state
    WHERE state.queue_id = from_queue
    ORDER BY state.version DESC
    LIMIT 1;
    IF state_row IS NULL AND redriving THEN
        error := :QUEUE_NOT_EXISTING;
        RETURN;
    END IF;
    IF letter_ids IS NULL THEN
        letter_rows := ARRAY(SELECT letter.ctid FROM telesto.dead_letters AS letter
                             WHERE letter.queue_id = from_queue
                             ORDER BY letter.message_id
                             LIMIT max_rows);
        more := cardinality(letter_rows) = max_rows;
    ELSE
        letter_rows := ARRAY(SELECT letter.ctid
                             FROM (SELECT DISTINCT unnest(letter_ids) AS message_id) AS wanted
                             CROSS JOIN LATERAL (SELECT letter.ctid FROM telesto.dead_letters AS letter
                                                 WHERE letter.queue_id = from_queue
                                                   AND letter.message_id = wanted.message_id
                                                 LIMIT 1) AS letter);
    END IF;
    IF NOT redriving THEN
        DELETE FROM telesto.dead_letters AS letter WHERE letter.ctid = ANY (letter_rows);
        GET DIAGNOSTICS settled = ROW_COUNT;
        IF state_row IS NULL AND settled = 0
            AND NOT EXISTS (SELECT FROM telesto.dead_letters AS letter WHERE letter.queue_id = from_queue)
        THEN
            error := :QUEUE_NOT_EXISTING;
        END IF;
        RETURN;
    END IF;
    WITH removed AS (
        DELETE FROM telesto.dead_letters AS letter WHERE letter.ctid = ANY (letter_rows) RETURNING letter.*
    ), placed AS (
        INSERT INTO telesto.messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                      time_of_arrival, attempt, redelivered, body, headers, history, put_through,
                                      origin)
        SELECT removed.queue_id, removed.receiver_id, removed.priority, removed.message_id, removed.sender_id,
               removed.context, removed.time_of_arrival, 0, true, removed.body, removed.headers,
               removed.history, removed.put_through, removed.origin
        FROM removed
        WHERE removed.partition_key IS NULL
    ), keyed AS (
        INSERT INTO telesto.keyed_messages (queue_id, sender_id, partition_key, message_id, context, time_of_arrival,
                                            attempt, priority, redelivered, body, headers, history, put_through,
                                            origin)
        SELECT removed.queue_id, removed.sender_id, removed.partition_key, removed.message_id, removed.context,
               removed.time_of_arrival, 0, removed.priority, true, removed.body, removed.headers, removed.history,
               removed.put_through,
               removed.origin
        FROM removed
        WHERE removed.partition_key IS NOT NULL
    )
    SELECT count(*), array_agg(removed.queue_id), array_agg(removed.receiver_id), array_agg(removed.priority),
           array_agg(removed.message_id), array_agg(removed.partition_key IS NOT NULL),
           array_agg(removed.sender_id) FILTER (WHERE removed.partition_key IS NOT NULL),
           array_agg(removed.partition_key) FILTER (WHERE removed.partition_key IS NOT NULL),
           array_agg(removed.message_id) FILTER (WHERE removed.partition_key IS NOT NULL)
    INTO settled, queue_ids, receiver_ids, priorities, message_ids, hidden, senders, keys, key_ids
    FROM removed;
    IF keys IS NOT NULL THEN
        PERFORM telesto.settle_partitions(array_fill(from_queue, ARRAY[cardinality(keys)]), senders, keys, key_ids,
                                          false);
    END IF;
    PERFORM telesto.lower_bounds(ARRAY[from_queue], ARRAY[state_row], queue_ids, receiver_ids, priorities,
                                 message_ids, hidden);
END
$$;
