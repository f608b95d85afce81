-- Procedure:  sweep_topics
-- Purpose:    Removes messages of topics that everybody who was owed them has confirmed: ranges of numbers,
--             topic by topic from where the last turn ended. What one idle subscription is still owed pins
--             nothing but the messages of its own topic behind its position. Takes no topic's lock.
-- Parameters:
--   max_rows int            at most so many messages, and so many topics looked at
-- Returns:
--   done bigint             how many messages were removed
--   more boolean            whether this round goes on
-- Errors:     none raised
-- Locks:      the topics' rows
-- Tables:     jobs (read, update), topics (read, update), topic_states, subscriptions, positions (read),
--             topic_messages (read, delete)
CREATE OR REPLACE FUNCTION telesto.sweep_topics(max_rows int, OUT done bigint, OUT more boolean)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    visited int := 0;
    topic record;
    reached bigint;
    part record;
BEGIN
    done := 0;
    more := false;
    SELECT job.position INTO reached FROM telesto.jobs AS job WHERE job.job = 'topics';
    FOR topic IN
        SELECT found.topic_id, found.reclaimed, state.last_number
        FROM (SELECT found.topic_id, found.reclaimed FROM telesto.topics AS found
              WHERE found.topic_id > reached
              ORDER BY found.topic_id
              LIMIT max_rows) AS found
        CROSS JOIN LATERAL (SELECT state.last_number FROM telesto.topic_states AS state
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
    END LOOP;
    -- The round ends where no topic follows; the next one begins at the first.
    IF NOT more THEN
        more := visited >= max_rows OR done >= max_rows;
    END IF;
    UPDATE telesto.jobs AS job SET position = CASE WHEN more THEN reached ELSE 0 END WHERE job.job = 'topics';
END
$$;
