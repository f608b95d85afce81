-- Procedure:  remove_messages
-- Purpose:    Purges messages from a queue, those for anyone first, in the order in which they would be read.
-- Locks:      the queue's take lock (wait)
-- Tables:     put_states, consumers, leases (read), messages, delayed_messages, keyed_messages, partition_arrivals
--             (delete), partitions, take_states (insert, delete), history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.remove_messages(
    queue_id bigint,     -- the queue
    max_rows int,        -- at most this many
    OUT removed bigint,  -- how many
    OUT more boolean     -- whether some are left; NULL when there is no such queue
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    state record;
    priorities smallint[];
    message_ids bigint[];
    message_rows tid[];
    delayed_rows tid[] := '{}';
    keyed_rows tid[] := '{}';
    common_count bigint;
    seen bigint;
    hidden bigint;
    left_partitions record;
    lower bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(remove_messages.queue_id));
    SELECT taken.ctid AS state_row, taken.*, put.last_id, put.upper, put.total - taken.total AS depth,
           put.directed_total - taken.directed_total AS directed_depth,
           put.hidden_total - taken.hidden_total AS hidden_depth
    INTO state
    FROM (SELECT taken.ctid, taken.* FROM telesto.take_states AS taken
          WHERE taken.queue_id = remove_messages.queue_id
          ORDER BY taken.version DESC
          LIMIT 1) AS taken
    CROSS JOIN LATERAL (SELECT put.* FROM telesto.put_states AS put
                        WHERE put.queue_id = taken.queue_id
                        ORDER BY put.version DESC
                        LIMIT 1) AS put;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    SELECT array_agg(message.priority), array_agg(message.message_id), array_agg(message.ctid)
    INTO priorities, message_ids, message_rows
    FROM (SELECT message.*
          FROM generate_series(10, 1, -1) AS level (priority)
          CROSS JOIN LATERAL (SELECT message.priority, message.message_id, message.ctid
                              FROM telesto.messages AS message
                              WHERE message.queue_id = remove_messages.queue_id
                                AND message.receiver_id = 0
                                AND message.priority = level.priority
                                AND message.message_id >= state.lower[level.priority]
                              ORDER BY message.message_id
                              LIMIT max_rows) AS message
          WHERE state.lower[level.priority] <= state.upper[level.priority]
          LIMIT max_rows) AS message;
    common_count := coalesce(cardinality(message_ids), 0);
    lower := CASE WHEN common_count = 0 THEN state.lower
                  ELSE telesto.next_bounds(state.lower, state.last_id, priorities[common_count],
                                           message_ids[common_count]) END;
    IF common_count < max_rows AND state.directed_depth > 0 THEN
        message_rows := message_rows || ARRAY(
            SELECT message.ctid FROM telesto.messages AS message
            WHERE message.queue_id = remove_messages.queue_id AND message.receiver_id > 0
            ORDER BY message.queue_id, message.receiver_id, message.priority, message.message_id
            LIMIT max_rows - common_count);
    END IF;

    seen := coalesce(cardinality(message_rows), 0);
    IF seen < max_rows AND state.hidden_depth > 0 THEN
        delayed_rows := ARRAY(SELECT message.ctid FROM telesto.delayed_messages AS message
                              WHERE message.queue_id = remove_messages.queue_id
                                AND message.message_id <= state.last_id
                              LIMIT max_rows - seen);
        keyed_rows := ARRAY(SELECT message.ctid FROM telesto.keyed_messages AS message
                            WHERE message.queue_id = remove_messages.queue_id
                              AND message.message_id <= state.last_id
                            LIMIT max_rows - seen - cardinality(delayed_rows));
    END IF;
    hidden := cardinality(delayed_rows) + cardinality(keyed_rows);
    IF keyed_rows <> '{}' THEN
        SELECT array_agg(message.sender_id) AS senders, array_agg(message.partition_key) AS keys,
               array_agg(message.message_id) AS ids
        INTO left_partitions
        FROM telesto.keyed_messages AS message
        WHERE message.ctid = ANY (keyed_rows);
    END IF;
    PERFORM telesto.end_messages(message_rows, delayed_rows, keyed_rows, 'purged');
    IF keyed_rows <> '{}' THEN
        PERFORM telesto.leave_partitions(remove_messages.queue_id, left_partitions.senders, left_partitions.keys,
                                         left_partitions.ids);
    END IF;
    removed := seen + hidden;
    more := removed > 0 AND removed < state.depth;
    IF removed > 0 THEN
        INSERT INTO telesto.take_states (queue_id, version, total, directed_total, hidden_total, lower)
        VALUES (remove_messages.queue_id, state.version + 1, state.total + removed,
                state.directed_total + seen - common_count, state.hidden_total + hidden, lower);
        DELETE FROM telesto.take_states AS old WHERE old.ctid = state.state_row;
    END IF;
END
$$;
