-- Procedure:  place_staged_topics
-- Purpose:    Places messages that SQL users have put to topics and committed. It takes what it sees, so a
--             transaction that committed late is never skipped. Those of one topic go in the order of their
--             staged_id, which is that of the calls within each transaction. Meant for one caller at a time; a
--             second one passes over the topics that the first works at.
-- Locks:      topics (try)
-- Tables:     staged_topic_messages (read, delete), topics (read, insert), topic_states (insert, delete),
--             topic_messages (insert)
CREATE OR REPLACE FUNCTION telesto.place_staged_topics(
    max_rows int,            -- at most this many messages
    OUT topic_ids bigint[],  -- the topics that got messages, for wake-ups
    OUT counts int[]         -- how many
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    names text[];
    topics bigint[];
    senders bigint[];
    locked_names text[];
    locked_topics bigint[];
    lasts bigint[];
    subscribers bigint[];
    state_rows tid[];
    arrived timestamptz;
BEGIN
    PERFORM telesto.require_read_committed();
    topic_ids := '{}';
    counts := '{}';
    SELECT array_agg(staged.topic), array_agg(staged.sender_id) INTO names, senders
    FROM (SELECT staged.topic, min(staged.sender_id) AS sender_id
          FROM (SELECT staged.topic, staged.sender_id FROM telesto.staged_topic_messages AS staged
                ORDER BY staged.staged_id
                LIMIT max_rows) AS staged
          GROUP BY staged.topic) AS staged;
    IF names IS NULL THEN
        RETURN;
    END IF;
    -- A quota of topics was looked at when they were staged.
    topics := telesto.get_topics(names, senders, ARRAY(SELECT generate_series(1, cardinality(names))), false);
    SELECT array_agg(wanted.topic_id), array_agg(wanted.name)
    INTO locked_topics, locked_names
    FROM (SELECT wanted.topic_id, wanted.name
          FROM unnest(topics, names) AS wanted (topic_id, name)
          ORDER BY wanted.topic_id) AS wanted
    WHERE pg_try_advisory_xact_lock(telesto.topic_lock_key(wanted.topic_id));
    IF locked_topics IS NULL THEN
        RETURN;
    END IF;
    -- One that was deleted before its lock was had is for the next call, which makes it anew.
    SELECT array_agg(topic.topic_id), array_agg(topic.name), array_agg(state.ctid), array_agg(state.last_number),
           array_agg(state.subscribers)
    INTO locked_topics, locked_names, state_rows, lasts, subscribers
    FROM unnest(locked_topics, locked_names) AS topic (topic_id, name)
    CROSS JOIN LATERAL (SELECT state.ctid, state.last_number, state.subscribers
                        FROM telesto.topic_states AS state
                        WHERE state.topic_id = topic.topic_id
                        ORDER BY state.version DESC
                        LIMIT 1) AS state;
    IF locked_topics IS NULL THEN
        RETURN;
    END IF;

    -- The locks' last holders have committed, so this statement no longer sees the rows that they placed.
    arrived := clock_timestamp();
    WITH removed AS (
        DELETE FROM telesto.staged_topic_messages AS staged
        WHERE staged.ctid = ANY (ARRAY(SELECT next.ctid
                                       FROM (SELECT next.ctid, next.topic FROM telesto.staged_topic_messages AS next
                                             ORDER BY next.staged_id
                                             LIMIT max_rows) AS next
                                       WHERE next.topic = ANY (locked_names)))
        RETURNING staged.*
    ), placed AS (
        SELECT removed.*, array_position(locked_names, removed.topic) AS place,
               row_number() OVER (PARTITION BY removed.topic ORDER BY removed.staged_id) AS rank
        FROM removed
    ), messages AS (
        INSERT INTO telesto.topic_messages (topic_id, number, sender_id, time_of_arrival, body, headers)
        SELECT locked_topics[placed.place], lasts[placed.place] + placed.rank, placed.sender_id, arrived,
               placed.body, placed.headers
        FROM placed
        WHERE subscribers[placed.place] > 0
    ), grown AS (
        SELECT placed.place, count(*) AS n FROM placed GROUP BY placed.place
    ), replaced AS (
        DELETE FROM telesto.topic_states AS state
        USING grown
        WHERE state.ctid = state_rows[grown.place]
        RETURNING state.*, grown.n
    ), states AS (
        INSERT INTO telesto.topic_states (topic_id, version, last_number, subscribers)
        SELECT state.topic_id, state.version + 1, state.last_number + state.n, state.subscribers
        FROM replaced AS state
    )
    SELECT coalesce(array_agg(locked_topics[grown.place]), '{}'), coalesce(array_agg(grown.n::int), '{}')
    INTO topic_ids, counts
    FROM grown;
END
$$;
