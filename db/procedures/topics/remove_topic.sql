-- Procedure:  remove_topic
-- Purpose:    Removes a topic without subscriptions, with the sequences of its publishers, and notes it down for
--             the removal of the messages that are left. The sequences are found by a walk over all that there are,
--             and only where publishers number their messages. A later topic of the same name is another one, whose
--             numbers begin at 1.
-- Returns:
--   boolean                 whether it was removed; false when somebody subscribes to it, if only to a subscription
--                           that was dropped; NULL when it does not exist (any more)
-- Locks:      the topic's row; the caller holds the topic's lock
-- Tables:     subscriptions (read), topics, topic_states, publisher_states (delete), deleted_topics (insert)
CREATE OR REPLACE FUNCTION telesto.remove_topic(
    topic_id bigint  -- the topic
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    gone telesto.topics;
    last bigint;
BEGIN
    PERFORM FROM telesto.subscriptions AS subscription WHERE subscription.topic_id = remove_topic.topic_id LIMIT 1;
    IF FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM telesto.topics AS topic WHERE topic.topic_id = remove_topic.topic_id
    RETURNING topic.* INTO gone;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM telesto.topic_states AS state WHERE state.topic_id = remove_topic.topic_id
    RETURNING state.last_number INTO last;
    IF gone.numbered THEN
        DELETE FROM telesto.publisher_states AS state WHERE state.topic_id = remove_topic.topic_id;
    END IF;
    IF last > gone.reclaimed THEN
        INSERT INTO telesto.deleted_topics (topic_id, removed) VALUES (remove_topic.topic_id, gone.reclaimed);
    END IF;
    RETURN true;
END
$$;
