-- Procedure:  sweep_dead_letters
-- Purpose:    Moves dead letters on to the dead letter queues of their queues, as messages that have not been
--             attempted, by rising id. What does not fit, or whose dead letter queue is gone, stays where it is.
-- Locks:      put locks of the dead letter queues (try). Letters that another transaction settles are left to it
-- Tables:     queues, take_states (read), dead_letters (delete), messages, keyed_messages, partition_arrivals
--             (insert), put_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.sweep_dead_letters(
    max_rows int,              -- at most this many letters
    OUT done bigint,           -- how many were moved
    OUT more boolean,          -- whether there is more to do at once
    OUT queue_ids bigint[],    -- per message that can be read now: its queue
    OUT receiver_ids bigint[]  -- per message that can be read now: for whom; 0 for anyone
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    queues_at_once constant int := 256;
    arrived timestamptz;
    targets bigint[];
    state_rows tid[];
    free_counts bigint[];
    lives bigint[];
    histories smallint[];
    letter_rows tid[];
    letter_ids bigint[];
    letter_targets bigint[];
BEGIN
    done := 0;
    more := false;
    SELECT array_agg(DISTINCT source.dead_letter_queue)
    INTO targets
    FROM (SELECT source.dead_letter_queue
          FROM telesto.queues AS source
          CROSS JOIN LATERAL (SELECT letter.message_id FROM telesto.dead_letters AS letter
                              WHERE letter.queue_id = source.queue_id
                              ORDER BY letter.message_id
                              LIMIT 1) AS letter
          CROSS JOIN LATERAL (SELECT target.queue_id FROM telesto.queues AS target
                              WHERE target.queue_id = source.dead_letter_queue
                              LIMIT 1) AS target
          WHERE source.dead_letter_queue IS NOT NULL AND telesto.has_space(source.dead_letter_queue)
          LIMIT queues_at_once) AS source;
    SELECT array_agg(target.queue_id ORDER BY target.queue_id)
    INTO targets
    FROM unnest(targets) AS target (queue_id)
    WHERE pg_try_advisory_xact_lock(telesto.put_lock_key(target.queue_id));
    IF targets IS NULL THEN
        RETURN;
    END IF;

    -- A queue without a state does not exist (any more).
    SELECT array_agg(state.ctid),
           array_agg(CASE WHEN state.ctid IS NULL THEN 0
                          ELSE least(max_rows, queue.max_messages - (state.total - taken.total)) END),
           array_agg(queue.expires_ms), array_agg(telesto.history_of(queue.history, queue.history_days))
    INTO state_rows, free_counts, lives, histories
    FROM unnest(targets) AS wanted (queue_id)
    LEFT JOIN LATERAL (SELECT state.ctid, state.total FROM telesto.put_states AS state
                       WHERE state.queue_id = wanted.queue_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true
    LEFT JOIN LATERAL (SELECT queue.max_messages, queue.expires_ms, queue.history, queue.history_days
                       FROM telesto.queues AS queue
                       WHERE queue.queue_id = wanted.queue_id
                       LIMIT 1) AS queue ON true
    LEFT JOIN LATERAL (SELECT taken.total FROM telesto.take_states AS taken
                       WHERE queue.max_messages IS NOT NULL AND taken.queue_id = wanted.queue_id
                       ORDER BY taken.version DESC
                       LIMIT 1) AS taken ON true;
    SELECT array_agg(letter.letter_row), array_agg(nextval('telesto.message_ids')), array_agg(letter.target)
    INTO letter_rows, letter_ids, letter_targets
    FROM (SELECT unnest(targets) AS queue_id, unnest(free_counts) AS free_count) AS target
    CROSS JOIN LATERAL (SELECT letter.letter_row, target.queue_id AS target
                        FROM telesto.queues AS source
                        CROSS JOIN LATERAL (SELECT letter.ctid AS letter_row FROM telesto.dead_letters AS letter
                                            WHERE letter.queue_id = source.queue_id
                                            ORDER BY letter.message_id
                                            LIMIT greatest(0, target.free_count)
                                            FOR UPDATE SKIP LOCKED) AS letter
                        WHERE source.dead_letter_queue IS NOT NULL AND source.dead_letter_queue = target.queue_id
                        LIMIT greatest(0, target.free_count)) AS letter;
    IF letter_rows IS NULL THEN
        RETURN;
    END IF;

    arrived := clock_timestamp();
    WITH removed AS (
        DELETE FROM telesto.dead_letters AS letter
        USING (SELECT unnest(letter_rows) AS letter_row, unnest(letter_ids) AS new_id,
                      unnest(letter_targets) AS target) AS pick
        WHERE letter.ctid = pick.letter_row
        RETURNING letter.*, pick.new_id, pick.target
    ), new AS (
        SELECT removed.*,
               arrived + make_interval(secs => lives[telesto.sorted_index(removed.target, targets)] / 1000.0)
                   AS expires_at,
               histories[telesto.sorted_index(removed.target, targets)] AS kept,
               jsonb_build_object('queue_id', removed.queue_id, 'message_id', removed.message_id,
                                  'reason', removed.reason, 'attempt', removed.attempt,
                                  'died_at', (extract(epoch FROM removed.died_at) * 1e6)::bigint) AS from_where
        FROM removed
    ), placed AS (
        INSERT INTO telesto.messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                      time_of_arrival, attempt, redelivered, body, headers, expires_at, history,
                                      put_through,
                                      origin)
        SELECT new.target, new.receiver_id, new.priority, new.new_id, new.sender_id, new.context, arrived, 0,
               new.redelivered, new.body, new.headers, new.expires_at, new.kept, new.put_through, new.from_where
        FROM new
        WHERE new.partition_key IS NULL
    ), keyed AS (
        INSERT INTO telesto.keyed_messages (queue_id, sender_id, partition_key, message_id, context, time_of_arrival,
                                            expires_at, attempt, priority, redelivered, body, headers, history,
                                            put_through,
                                            origin)
        SELECT new.target, new.sender_id, new.partition_key, new.new_id, new.context, arrived, new.expires_at, 0,
               new.priority, new.redelivered, new.body, new.headers, new.kept, new.put_through, new.from_where
        FROM new
        WHERE new.partition_key IS NOT NULL
    ), reached AS (
        INSERT INTO telesto.partition_arrivals (queue_id, message_id, sender_id, partition_key)
        SELECT new.target, min(new.new_id), new.sender_id, new.partition_key
        FROM new
        WHERE new.partition_key IS NOT NULL
        GROUP BY new.target, new.sender_id, new.partition_key
    ), grown AS (
        SELECT new.target, count(*) AS n, count(*) FILTER (WHERE new.partition_key IS NOT NULL) AS hidden,
               count(*) FILTER (WHERE new.receiver_id <> 0) AS directed, bit_or(1 << new.priority) AS priorities,
               max(new.new_id) AS newest_id
        FROM new
        GROUP BY new.target
    ), replaced AS (
        DELETE FROM telesto.put_states AS state
        USING grown
        WHERE state.ctid = state_rows[telesto.sorted_index(grown.target, targets)]
        RETURNING state.*, grown.n, grown.directed, grown.hidden, grown.priorities, grown.newest_id
    ), states AS (
        INSERT INTO telesto.put_states (queue_id, version, total, directed_total, hidden_total, last_id, upper)
        SELECT state.queue_id, state.version + 1, state.total + state.n, state.directed_total + state.directed,
               state.hidden_total + state.hidden, state.newest_id,
               telesto.next_upper(state.upper, state.priorities, state.newest_id)
        FROM replaced AS state
    )
    SELECT count(*), array_agg(new.target), array_agg(new.receiver_id) INTO done, queue_ids, receiver_ids FROM new;
    -- What did not fit waits for space.
    more := done >= max_rows;
END
$$;
