-- Procedure:  reclaim_topic
-- Purpose:    Removes the next range of a topic's messages that nobody is owed any more. Who is owed what, and
--             the last number where nobody is, come from one snapshot: a subscription that it does not show
--             begins behind that number.
-- Locks:      the topic's row
-- Tables:     topics (read, update), topic_states, subscriptions, positions (read), topic_messages (read, delete)
CREATE OR REPLACE FUNCTION telesto.reclaim_topic(
    topic_id bigint,  -- the topic
    max_rows bigint,  -- at most this many messages
    OUT done bigint,  -- how many were removed
    OUT more boolean  -- whether there is more to remove
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    below bigint;
    floor bigint;
    first bigint;
    upto bigint;
BEGIN
    SELECT topic.reclaimed, coalesce(telesto.lowest_position(topic.topic_id), state.last_number)
    INTO below, floor
    FROM telesto.topics AS topic
    CROSS JOIN LATERAL (SELECT state.last_number FROM telesto.topic_states AS state
                        WHERE state.topic_id = topic.topic_id
                        ORDER BY state.version DESC
                        LIMIT 1) AS state
    WHERE topic.topic_id = reclaim_topic.topic_id;
    done := 0;
    more := false;
    IF floor <= below THEN
        RETURN;
    END IF;

    -- Numbers that nobody was owed have no rows.
    SELECT message.number INTO first
    FROM telesto.topic_messages AS message
    WHERE message.topic_id = reclaim_topic.topic_id AND message.number > below AND message.number <= floor
    ORDER BY message.number
    LIMIT 1;
    upto := least(floor, coalesce(first - 1 + max_rows, floor));
    DELETE FROM telesto.topic_messages AS message
    WHERE message.topic_id = reclaim_topic.topic_id AND message.number >= first AND message.number <= upto;
    GET DIAGNOSTICS done = ROW_COUNT;
    UPDATE telesto.topics AS topic SET reclaimed = upto WHERE topic.topic_id = reclaim_topic.topic_id;
    more := upto < floor;
END
$$;
