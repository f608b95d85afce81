-- Procedure:  get_subscribed_topics
-- Purpose:    The topics to which clients subscribe, by which rights are decided.
-- Tables:     subscriptions, topics (read)
CREATE OR REPLACE FUNCTION telesto.get_subscribed_topics(
    client_ids bigint[]      -- the clients
)
RETURNS TABLE (
    client_id bigint,        -- a client
    subscription_id bigint,  -- a subscription of it
    topic text               -- that one's topic
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT subscription.client_id, subscription.subscription_id, topic.name
    FROM telesto.subscriptions AS subscription
    CROSS JOIN LATERAL (SELECT topic.name FROM telesto.topics AS topic
                        WHERE topic.topic_id = subscription.topic_id
                        LIMIT 1) AS topic
    WHERE subscription.client_id = ANY (get_subscribed_topics.client_ids);
END
$$;
