-- Procedure:  publish_batch
-- Purpose:    Puts messages to topics, for many requests of many clients in one transaction. A request is for
--             one topic and has one or more messages. It is executed as a whole or not at all; if it is, each
--             message succeeds or is refused on its own. A message gets the next number of its topic, and is
--             stored once if anybody subscribes to the topic, else not at all. Topics are created on first use.
-- Errors:     check_violation for a topic's name out of range: nothing is done
-- Locks:      clients (shared, try), topics (of one: wait; of several: try)
-- Tables:     clients (read), topics (read, insert, delete), topic_states, publisher_states (insert, delete),
--             topic_messages (insert), operations (insert, delete), deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.publish_batch(
    client_ids bigint[],           -- per request: who puts
    sessions bigint[],             -- per request: the session
    numbers bigint[],              -- per request: its number; 0 leaves no record (delivery "fast")
    topic_names text[],            -- the topics that the requests name, each once
    request_topics int[],          -- per request: the index of its topic, counted from 1
    element_requests int[],        -- per message: its request, counted from 1
    sequences bigint[],            -- per message: the publisher's own number; NULL without
    bodies bytea[],                -- per message: the content
    confirm_clients bigint[],      -- per confirmed request: the client; only those with a request here count
    confirm_sessions bigint[],     -- per confirmed request: its session
    confirm_numbers bigint[],      -- per confirmed request: its number
    headers jsonb[] DEFAULT NULL,  -- per message: its headers, an object of texts; NULL for a message, or for all,
                                   -- without
    OUT errors smallint[],         -- NULL when all messages are done, else per message: NULL when done, BUSY (not
                                   -- executed, try again), CLIENT_NOT_EXISTING, SESSION_FENCED, SEQUENCE_GAP or
                                   -- NUMBER_REPEATED
    OUT message_numbers bigint[],  -- per message: its number in the topic; with SEQUENCE_GAP the sequence expected; 0
                                   -- where not put, or put before and no longer known
    OUT duplicates boolean[],      -- NULL when none is, else per message: whether its sequence was put before
    OUT topic_ids bigint[]         -- per name: the topic
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    passed bigint[];
    request_errors smallint[];
    topics bigint[];
    request_places int[];
    granted boolean[];
    lasts bigint[];
    subscribers bigint[];
    state_rows tid[];
    plain boolean;
    arrived timestamptz;
BEGIN
    SELECT fence.passed, fence.errors INTO passed, request_errors
    FROM telesto.fence_requests(client_ids, sessions) AS fence;
    topic_ids := telesto.get_topics(topic_names, client_ids, request_topics);

    SELECT array_agg(topic.topic_id)
    INTO topics
    FROM (SELECT DISTINCT topic_ids[request.topic] AS topic_id
          FROM (SELECT unnest(request_topics) AS topic, generate_series(1, cardinality(numbers)) AS i) AS request
          WHERE request_errors IS NULL OR request_errors[request.i] IS NULL
          ORDER BY 1) AS topic;
    request_places := ARRAY(SELECT telesto.sorted_index(topic_ids[request.topic], topics)
                            FROM unnest(request_topics) WITH ORDINALITY AS request (topic, i)
                            ORDER BY request.i);

    -- A slow topic must not hold up the others: only a batch of one topic waits for it.
    IF cardinality(topics) = 1 THEN
        PERFORM pg_advisory_xact_lock(telesto.topic_lock_key(topics[1]));
        granted := ARRAY[true];
    ELSE
        SELECT array_agg(pg_try_advisory_xact_lock(telesto.topic_lock_key(topic.topic_id)))
        INTO granted
        FROM unnest(topics) AS topic (topic_id);
    END IF;

    SELECT array_agg(state.ctid), array_agg(state.last_number), array_agg(state.subscribers)
    INTO state_rows, lasts, subscribers
    FROM unnest(topics) AS topic (topic_id)
    LEFT JOIN LATERAL (SELECT state.ctid, state.last_number, state.subscribers
                       FROM telesto.topic_states AS state
                       WHERE state.topic_id = topic.topic_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true;
    IF array_position(lasts, NULL) IS NOT NULL THEN
        -- One was deleted before its lock was had. The next try makes it anew.
        granted := ARRAY(SELECT topic.granted AND topic.last IS NOT NULL
                         FROM unnest(granted, lasts) WITH ORDINALITY AS topic (granted, last, i)
                         ORDER BY topic.i);
    END IF;

    plain := request_errors IS NULL AND NOT false = ANY (granted)
             AND sequences = array_fill(NULL::bigint, ARRAY[cardinality(sequences)]);
    IF plain THEN
        message_numbers := telesto.draw_numbers(request_places, element_requests, lasts);
        plain := telesto.record_publishes(client_ids, sessions, numbers, element_requests, NULL, message_numbers);
    END IF;
    IF NOT plain THEN
        SELECT judged.errors, judged.message_numbers, judged.duplicates
        INTO errors, message_numbers, duplicates
        FROM telesto.judge_publishes(client_ids, sessions, numbers, request_errors, topics, request_places,
                                     granted, lasts, element_requests, sequences) AS judged;
        -- The record tells a duplicate by the negative number of the message put first.
        PERFORM telesto.record_publishes(client_ids, sessions, numbers, element_requests, errors,
                                         ARRAY(SELECT CASE WHEN element.duplicate THEN -element.number
                                                           ELSE element.number END
                                               FROM unnest(message_numbers, duplicates)
                                                    WITH ORDINALITY AS element (number, duplicate, i)
                                               ORDER BY element.i));
    END IF;

    arrived := clock_timestamp();
    INSERT INTO telesto.topic_messages (topic_id, number, sender_id, time_of_arrival, body, headers)
    SELECT topics[request_places[element.request]], element.number, client_ids[element.request], arrived,
           element.body, element.headers
    FROM (SELECT unnest(element_requests) AS request, unnest(message_numbers) AS number,
                 unnest(bodies) AS body, unnest(headers) AS headers, unnest(errors) AS error,
                 unnest(duplicates) AS duplicate) AS element
    WHERE element.error IS NULL AND element.duplicate IS NOT TRUE
      AND subscribers[request_places[element.request]] > 0;

    WITH replaced AS (
        DELETE FROM telesto.topic_states AS state
        USING (SELECT state_rows[put.place] AS state_row, put.n
               FROM (SELECT request_places[element.request] AS place, count(*) AS n
                     FROM (SELECT unnest(element_requests) AS request, unnest(errors) AS error,
                                  unnest(duplicates) AS duplicate) AS element
                     WHERE element.error IS NULL AND element.duplicate IS NOT TRUE
                     GROUP BY 1) AS put) AS put
        WHERE state.ctid = put.state_row
        RETURNING state.*, put.n
    )
    INSERT INTO telesto.topic_states (topic_id, version, last_number, subscribers)
    SELECT state.topic_id, state.version + 1, state.last_number + state.n, state.subscribers
    FROM replaced AS state;

    IF errors IS NOT NULL THEN
        -- A topic that was created for messages none of which was put is not left behind.
        WITH unused AS (
            DELETE FROM telesto.topics AS topic
            USING (SELECT unnest(topic_ids) AS topic_id) AS named
            WHERE topic.topic_id = named.topic_id AND topic.xmin = pg_current_xact_id()::xid
              AND NOT EXISTS (SELECT FROM telesto.topic_states AS state
                              WHERE state.topic_id = topic.topic_id AND state.last_number > 0)
            RETURNING topic.topic_id
        )
        DELETE FROM telesto.topic_states AS state USING unused WHERE state.topic_id = unused.topic_id;
    END IF;
    IF duplicates IS NOT NULL OR 22 = ANY (errors) THEN
        -- A standby may not know yet of what the publisher put before, which the answer takes for done.
        PERFORM pg_logical_emit_message(true, 'telesto', '');
    END IF;
    PERFORM telesto.delete_confirmed(passed, confirm_clients, confirm_sessions, confirm_numbers, false);
END
$$;
