-- Procedure:  sweep_topics
-- Purpose:    Removes messages of topics that everybody who was owed them has confirmed: ranges of numbers,
--             topic by topic from where the last turn ended. What one idle subscription is still owed pins
--             nothing but the messages of its own topic behind its position. Takes the lock of a topic only to
--             remove that itself, when nobody has subscribed or put to it for some time. One in which publishers
--             number their own messages stays, for what they put next must be the next of their sequences.
--             Messages of deleted topics go first.
-- Locks:      the topics' rows; topics that go (try)
-- Tables:     jobs (read, update), topics (read, update, delete), topic_states (read, delete), subscriptions, positions
--             (read), topic_messages (read, delete), deleted_topics (insert, update, delete)
CREATE OR REPLACE FUNCTION telesto.sweep_topics(
    max_rows int,             -- at most this many messages, and this many topics looked at
    idle_s double precision,  -- for how long nobody subscribes or puts to a topic that goes, in seconds
    OUT done bigint,          -- how many messages and topics were removed
    OUT more boolean          -- whether this round goes on
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- Each that goes has its lock held to the end of the call.
    gone_max constant int := 100;
    looked_at constant timestamptz := clock_timestamp();
    gone int := 0;
    visited int := 0;
    topic record;
    reached bigint;
    part record;
    deleted telesto.deleted_topics;
BEGIN
    done := 0;
    more := false;
    SELECT found.* INTO deleted FROM telesto.deleted_topics AS found
    ORDER BY found.topic_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        WITH removed AS (
            DELETE FROM telesto.topic_messages AS message
            WHERE message.ctid = ANY (ARRAY(SELECT message.ctid FROM telesto.topic_messages AS message
                                            WHERE message.topic_id = deleted.topic_id
                                              AND message.number > deleted.removed
                                            ORDER BY message.number
                                            LIMIT max_rows))
            RETURNING message.number
        )
        SELECT count(*), max(removed.number) INTO done, reached FROM removed;
        IF done < max_rows THEN
            DELETE FROM telesto.deleted_topics AS found WHERE found.topic_id = deleted.topic_id;
        ELSE
            UPDATE telesto.deleted_topics AS found SET removed = reached WHERE found.topic_id = deleted.topic_id;
        END IF;
        more := true;
        RETURN;
    END IF;
    SELECT job.position INTO reached FROM telesto.jobs AS job WHERE job.job = 'topics';
    FOR topic IN
        SELECT found.*, state.last_number, state.subscribers
        FROM (SELECT found.topic_id, found.reclaimed, found.idle_since, found.idle_number, found.numbered
              FROM telesto.topics AS found
              WHERE found.topic_id > reached
              ORDER BY found.topic_id
              LIMIT max_rows) AS found
        CROSS JOIN LATERAL (SELECT state.last_number, state.subscribers FROM telesto.topic_states AS state
                            WHERE state.topic_id = found.topic_id
                            ORDER BY state.version DESC
                            LIMIT 1) AS state
        ORDER BY found.topic_id
    LOOP
        visited := visited + 1;
        IF topic.last_number > topic.reclaimed THEN
            SELECT range.done, range.more INTO part
            FROM telesto.reclaim_topic(topic.topic_id, max_rows - done) AS range;
            done := done + part.done;
            more := part.more;
            EXIT WHEN more OR done >= max_rows;
        END IF;
        reached := topic.topic_id;
        IF topic.subscribers > 0 OR topic.numbered THEN
            UPDATE telesto.topics AS found SET idle_since = NULL
            WHERE found.topic_id = topic.topic_id AND topic.idle_since IS NOT NULL;
        ELSIF topic.idle_since IS NULL OR topic.idle_number <> topic.last_number THEN
            UPDATE telesto.topics AS found SET idle_since = looked_at, idle_number = topic.last_number
            WHERE found.topic_id = topic.topic_id;
        ELSIF topic.idle_since + make_interval(secs => idle_s) <= looked_at
                AND pg_try_advisory_xact_lock(telesto.topic_lock_key(topic.topic_id)) THEN
            -- Only with the lock is it certain that nobody has put to it since.
            PERFORM FROM telesto.topics AS found
            CROSS JOIN LATERAL (SELECT state.last_number FROM telesto.topic_states AS state
                                WHERE state.topic_id = found.topic_id
                                ORDER BY state.version DESC
                                LIMIT 1) AS state
            WHERE found.topic_id = topic.topic_id AND NOT found.numbered
              AND state.last_number = topic.last_number;
            IF FOUND AND telesto.remove_topic(topic.topic_id) THEN
                gone := gone + 1;
                done := done + 1;
                more := gone >= gone_max;
                EXIT WHEN more;
            END IF;
        END IF;
    END LOOP;
    -- The round ends where no topic follows; the next one begins at the first.
    IF NOT more THEN
        more := visited >= max_rows OR done >= max_rows;
    END IF;
    UPDATE telesto.jobs AS job SET position = CASE WHEN more THEN reached ELSE 0 END WHERE job.job = 'topics';
END
$$;
