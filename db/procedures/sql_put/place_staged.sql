-- Procedure:  place_staged
-- Purpose:    Places messages that SQL users have put and committed into their queues. It takes what it sees,
--             so a transaction that committed late is never skipped. Rows of one queue go in the order of
--             their staged_id, which is that of the calls within each transaction. Rows of a full queue wait
--             without holding up others; rows of a queue that was deleted go with it, and so do rows whose key
--             stands for another message within their queue's window. Meant for one caller
--             at a time; a second one passes over the queues that the first works at.
-- Locks:      queues' put locks (try)
-- Tables:     staged_messages (read, delete), queues, take_states, key_generation (read), messages,
--             delayed_messages, keyed_messages, partition_arrivals (insert), put_states (insert, delete), message_keys_0, message_keys_1, message_keys_2 (read, insert,
--             update)
CREATE OR REPLACE FUNCTION telesto.place_staged(
    max_rows int,               -- at most this many rows in this call, divided among the queues, the longest waiting
                                -- first
    OUT queue_ids bigint[],     -- the queues that got messages, for wake-ups
    OUT receiver_ids bigint[],  -- for whom; 0 for anyone
    OUT counts int[]            -- how many
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    queues_at_once constant int := 256;
    queues bigint[];
    state_rows tid[];
    free_counts bigint[];
    queue_lives bigint[];
    histories smallint[];
    share int;
    staged_rows tid[];
    staged_ids bigint[];
    staged_queues bigint[];
    keys text[];
    known_ids bigint[];
    firsts int[];
    message_ids bigint[];
    arrived timestamptz;
BEGIN
    PERFORM telesto.require_read_committed();
    queue_ids := '{}';
    receiver_ids := '{}';
    counts := '{}';

    -- The heads of all queues, found by one index probe each. A full queue has no space for its head; this is
    -- read without its lock and decides only whom to look at.
    WITH RECURSIVE head AS (
        (SELECT staged.queue_id, staged.staged_id FROM telesto.staged_messages AS staged
         ORDER BY staged.queue_id, staged.staged_id LIMIT 1)
        UNION ALL
        SELECT next_head.queue_id, next_head.staged_id
        FROM head
        CROSS JOIN LATERAL (SELECT staged.queue_id, staged.staged_id FROM telesto.staged_messages AS staged
                            WHERE staged.queue_id > head.queue_id
                            ORDER BY staged.queue_id, staged.staged_id LIMIT 1) AS next_head
    )
    SELECT array_agg(candidate.queue_id ORDER BY candidate.queue_id)
    INTO queues
    FROM (SELECT head.queue_id FROM head
          WHERE telesto.has_space(head.queue_id)
          ORDER BY head.staged_id
          LIMIT least(queues_at_once, max_rows)) AS candidate;
    IF queues IS NULL THEN
        RETURN;
    END IF;

    SELECT array_agg(wanted.queue_id ORDER BY wanted.queue_id)
    INTO queues
    FROM unnest(queues) AS wanted (queue_id)
    WHERE pg_try_advisory_xact_lock(telesto.put_lock_key(wanted.queue_id));
    IF queues IS NULL THEN
        RETURN;
    END IF;

    -- A queue without a state does not exist (any more).
    SELECT array_agg(state.ctid), array_agg(queue.max_messages - (state.total - taken.total)),
           array_agg(queue.expires_ms), array_agg(telesto.history_of(queue.history, queue.history_days))
    INTO state_rows, free_counts, queue_lives, histories
    FROM unnest(queues) AS wanted (queue_id)
    LEFT JOIN LATERAL (SELECT state.ctid, state.total
                       FROM telesto.put_states AS state
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

    -- The lock's last holder has committed, so this statement no longer sees the rows that it placed.
    share := max_rows / cardinality(queues);
    SELECT array_agg(staged.ctid ORDER BY staged.staged_id), array_agg(staged.staged_id ORDER BY staged.staged_id),
           array_agg(queue.queue_id ORDER BY staged.staged_id), array_agg(staged.dedup_key ORDER BY staged.staged_id)
    INTO staged_rows, staged_ids, staged_queues, keys
    FROM unnest(queues, free_counts) AS queue (queue_id, free_count)
    CROSS JOIN LATERAL (SELECT staged.ctid, staged.staged_id, staged.dedup_key
                        FROM telesto.staged_messages AS staged
                        WHERE staged.queue_id = queue.queue_id
                        ORDER BY staged.staged_id
                        LIMIT greatest(0, least(queue.free_count, share))) AS staged;
    IF staged_ids IS NULL THEN
        RETURN;
    END IF;

    message_ids := ARRAY(SELECT nextval('telesto.message_ids') FROM generate_series(1, cardinality(staged_ids)));
    arrived := clock_timestamp();
    IF array_remove(keys, NULL) <> '{}' THEN
        SELECT known.known_ids, known.firsts INTO known_ids, firsts
        FROM telesto.known_messages(staged_queues, keys) AS known;
        message_ids := ARRAY(SELECT CASE WHEN known_ids[i] IS NULL AND coalesce(firsts[i], i) = i
                                         THEN message_ids[i] ELSE 0 END
                             FROM generate_series(1, cardinality(message_ids)) AS i);
        PERFORM telesto.remember_keys(staged_queues, keys, message_ids, arrived);
    END IF;
    WITH removed AS (
        DELETE FROM telesto.staged_messages AS staged
        WHERE staged.ctid = ANY (staged_rows)
        RETURNING staged.*
    ), new AS (
        SELECT removed.*, message_ids[telesto.sorted_index(removed.staged_id, staged_ids)] AS message_id,
               arrived + make_interval(secs => removed.delay_ms / 1000.0) AS due_at,
               arrived + make_interval(secs => least(removed.expires_ms,
                                                     queue_lives[telesto.sorted_index(removed.queue_id, queues)]) / 1000.0)
               AS expires_at,
               histories[telesto.sorted_index(removed.queue_id, queues)] AS history
        FROM removed
        WHERE state_rows[telesto.sorted_index(removed.queue_id, queues)] IS NOT NULL
          AND message_ids[telesto.sorted_index(removed.staged_id, staged_ids)] > 0
    ), placed AS (
        INSERT INTO telesto.messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                      time_of_arrival, attempt, redelivered, body, headers, expires_at, history)
        SELECT new.queue_id, new.receiver_id, new.priority, new.message_id, new.sender_id, new.context,
               arrived, 0, false, new.body, new.headers, new.expires_at, new.history
        FROM new
        WHERE new.due_at IS NULL AND new.partition_key IS NULL
        RETURNING queue_id, receiver_id
    ), delayed AS (
        INSERT INTO telesto.delayed_messages (queue_id, receiver_id, priority, message_id, sender_id, context,
                                              time_of_arrival, due_at, expires_at, attempt, redelivered, body, headers,
                                              history)
        SELECT new.queue_id, new.receiver_id, new.priority, new.message_id, new.sender_id, new.context, arrived,
               least(new.due_at, new.expires_at), new.expires_at, 0, false, new.body, new.headers, new.history
        FROM new
        WHERE new.due_at IS NOT NULL AND new.partition_key IS NULL
    ), keyed AS (
        INSERT INTO telesto.keyed_messages (queue_id, sender_id, partition_key, message_id, context, time_of_arrival,
                                            due_at, expires_at, attempt, priority, redelivered, body, headers, history)
        SELECT new.queue_id, new.sender_id, new.partition_key, new.message_id, new.context, arrived,
               CASE WHEN new.due_at IS NOT NULL THEN least(new.due_at, new.expires_at) END, new.expires_at, 0,
               new.priority, false, new.body, new.headers, new.history
        FROM new
        WHERE new.partition_key IS NOT NULL
    ), reached AS (
        INSERT INTO telesto.partition_arrivals (queue_id, message_id, sender_id, partition_key)
        SELECT new.queue_id, min(new.message_id), new.sender_id, new.partition_key
        FROM new
        WHERE new.partition_key IS NOT NULL
        GROUP BY new.queue_id, new.sender_id, new.partition_key
    ), grown AS (
        SELECT new.queue_id, count(*) AS n,
               count(*) FILTER (WHERE new.due_at IS NOT NULL OR new.partition_key IS NOT NULL) AS hidden,
               count(*) FILTER (WHERE new.receiver_id <> 0 AND new.due_at IS NULL) AS directed,
               bit_or(1 << new.priority) AS priorities, max(new.message_id) AS newest_id
        FROM new
        GROUP BY new.queue_id
    ), replaced AS (
        DELETE FROM telesto.put_states AS state
        USING grown
        WHERE state.ctid = state_rows[telesto.sorted_index(grown.queue_id, queues)]
        RETURNING state.*, grown.n, grown.directed, grown.hidden, grown.priorities, grown.newest_id
    ), states AS (
        INSERT INTO telesto.put_states (queue_id, version, total, directed_total, hidden_total, last_id, upper)
        SELECT state.queue_id, state.version + 1, state.total + state.n, state.directed_total + state.directed,
               state.hidden_total + state.hidden, state.newest_id, telesto.next_upper(state.upper, state.priorities, state.newest_id)
        FROM replaced AS state
    )
    SELECT coalesce(array_agg(woken.queue_id), '{}'), coalesce(array_agg(woken.receiver_id), '{}'),
           coalesce(array_agg(woken.n::int), '{}')
    INTO queue_ids, receiver_ids, counts
    FROM (SELECT come.queue_id, come.receiver_id, count(*) AS n
          FROM (SELECT placed.queue_id, placed.receiver_id FROM placed
                UNION ALL
                SELECT new.queue_id, 0 FROM new WHERE new.partition_key IS NOT NULL AND new.due_at IS NULL) AS come
          GROUP BY come.queue_id, come.receiver_id
          ORDER BY come.queue_id, come.receiver_id) AS woken;
END
$$;
