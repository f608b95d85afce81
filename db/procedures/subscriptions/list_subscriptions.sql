-- Procedure:  list_subscriptions
-- Purpose:    A page of a client's own subscriptions, by rising id.
-- Tables:     topics, topic_states, subscriptions, positions (read)
CREATE OR REPLACE FUNCTION telesto.list_subscriptions(
    of_client bigint,  -- the client
    after_id bigint,   -- the last subscription of the page before; 0 for the first page
    max_rows int       -- at most this many
)
RETURNS TABLE (
    subscription_id bigint,  -- a subscription
    topic text,              -- its topic's name
    "position" bigint,       -- all up to this number is confirmed
    last_number bigint,      -- the number of the topic's last message
    state smallint,          -- 1 active, 2 lagging, 3 dropped
    max_behind bigint,       -- its limit in messages; NULL for none
    max_age_ms bigint,       -- its limit in milliseconds; NULL for none
    drop_lagging boolean     -- whether it is dropped beyond its limit
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT mine.subscription_id, topic.name, coalesce(known.position, newest.last_number), newest.last_number,
           CASE WHEN mine.dropped_at IS NOT NULL THEN 3::smallint
                WHEN mine.lagging_since IS NOT NULL THEN 2::smallint
                ELSE 1::smallint END,
           mine.max_behind, mine.max_age_ms, mine.drop_lagging
    FROM (SELECT subscription.* FROM telesto.subscriptions AS subscription
          WHERE subscription.client_id = of_client AND subscription.subscription_id > after_id
          ORDER BY subscription.client_id, subscription.subscription_id
          LIMIT max_rows) AS mine
    CROSS JOIN LATERAL (SELECT topic.name FROM telesto.topics AS topic
                        WHERE topic.topic_id = mine.topic_id
                        LIMIT 1) AS topic
    CROSS JOIN LATERAL (SELECT newest.last_number FROM telesto.topic_states AS newest
                        WHERE newest.topic_id = mine.topic_id
                        ORDER BY newest.version DESC
                        LIMIT 1) AS newest
    LEFT JOIN LATERAL (SELECT known.position FROM telesto.positions AS known
                       WHERE known.subscription_id = mine.subscription_id
                       ORDER BY known.version DESC
                       LIMIT 1) AS known ON true
    ORDER BY mine.subscription_id;
END
$$;
