-- Procedure:  lowest_position
-- Purpose:    The number up to which all subscriptions of a topic that are owed something have confirmed.
-- Returns:
--   bigint                  the number; NULL when no subscription is owed anything
-- Tables:     subscriptions, positions (read)
CREATE OR REPLACE FUNCTION telesto.lowest_position(
    of_topic bigint  -- the topic
)
RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN (SELECT min(known.position)
            FROM telesto.subscriptions AS subscription
            CROSS JOIN LATERAL (SELECT known.position FROM telesto.positions AS known
                                WHERE known.subscription_id = subscription.subscription_id
                                ORDER BY known.version DESC
                                LIMIT 1) AS known
            WHERE subscription.topic_id = of_topic AND subscription.dropped_at IS NULL);
END
$$;
