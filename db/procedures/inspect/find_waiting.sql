-- Procedure:  find_waiting
-- Purpose:    Finds a message by its id where it waits, without an index for that: the states of the queues say which
--             of them may hold it, there it is looked up by key.
-- Tables:     queues, put_states, take_states, messages, delayed_messages, keyed_messages (read)
CREATE OR REPLACE FUNCTION telesto.find_waiting(
    wanted_id bigint,     -- the message
    in_queue bigint,      -- only in this queue; 0 for all
    max_probes int,       -- at most this many look-ups
    OUT message_row tid,  -- where it is; NULL when it was not found
    OUT found_in text,    -- in which table: messages, delayed_messages or keyed_messages
    OUT complete boolean  -- whether it was looked for everywhere
)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    probes int := 0;
    queue record;
    receiver bigint;
    priorities int[];
    sender bigint;
    key text;
BEGIN
    complete := true;
    FOR queue IN
        SELECT queue.queue_id, put.directed_total > taken.directed_total AS directed,
               put.hidden_total > taken.hidden_total AS hidden, put.upper, taken.lower
        FROM telesto.queues AS queue
        CROSS JOIN LATERAL (SELECT put.* FROM telesto.put_states AS put
                            WHERE put.queue_id = queue.queue_id
                            ORDER BY put.version DESC
                            LIMIT 1) AS put
        CROSS JOIN LATERAL (SELECT taken.* FROM telesto.take_states AS taken
                            WHERE taken.queue_id = queue.queue_id
                            ORDER BY taken.version DESC
                            LIMIT 1) AS taken
        WHERE (in_queue = 0 OR queue.queue_id = in_queue) AND put.last_id >= wanted_id AND put.total > taken.total
    LOOP
        IF queue.hidden THEN
            SELECT message.ctid INTO message_row
            FROM telesto.delayed_messages AS message
            WHERE message.queue_id = queue.queue_id AND message.message_id = wanted_id;
            IF FOUND THEN
                found_in := 'delayed_messages';
                RETURN;
            END IF;
            sender := 0;
            key := '';
            LOOP
                SELECT message.sender_id, message.partition_key INTO sender, key
                FROM telesto.keyed_messages AS message
                WHERE message.queue_id = queue.queue_id AND (message.sender_id, message.partition_key) > (sender, key)
                ORDER BY message.queue_id, message.sender_id, message.partition_key, message.message_id
                LIMIT 1;
                EXIT WHEN NOT FOUND;
                SELECT message.ctid INTO message_row
                FROM telesto.keyed_messages AS message
                WHERE message.queue_id = queue.queue_id AND message.sender_id = sender
                  AND message.partition_key = key AND message.message_id = wanted_id;
                IF FOUND THEN
                    found_in := 'keyed_messages';
                    RETURN;
                END IF;
                probes := probes + 2;
                EXIT WHEN probes >= max_probes;
            END LOOP;
        END IF;
        receiver := 0;
        LOOP
            priorities := ARRAY(SELECT level FROM generate_series(1, 10) AS level
                                WHERE queue.upper[level] >= wanted_id
                                  AND (receiver <> 0 OR queue.lower[level] <= wanted_id));
            SELECT found.ctid INTO message_row
            FROM unnest(priorities) AS level (priority)
            CROSS JOIN LATERAL (SELECT message.ctid FROM telesto.messages AS message
                                WHERE message.queue_id = queue.queue_id
                                  AND message.receiver_id = receiver
                                  AND message.priority = level.priority
                                  AND message.message_id = wanted_id
                                LIMIT 1) AS found;
            IF FOUND THEN
                found_in := 'messages';
                RETURN;
            END IF;
            probes := probes + 1 + cardinality(priorities);
            EXIT WHEN NOT queue.directed OR probes >= max_probes;
            SELECT message.receiver_id INTO receiver
            FROM telesto.messages AS message
            WHERE message.queue_id = queue.queue_id AND message.receiver_id > receiver
            ORDER BY message.queue_id, message.receiver_id, message.priority, message.message_id
            LIMIT 1;
            EXIT WHEN NOT FOUND;
        END LOOP;
        IF probes >= max_probes THEN
            complete := false;
            RETURN;
        END IF;
    END LOOP;
END
$$;
