-- Procedure:  remove_subscription
-- Purpose:    Removes a client's subscription of a topic.
-- Returns:
--   boolean                 whether there was one
-- Locks:      the topic, the subscription (wait)
-- Tables:     subscriptions (read, delete), positions (delete), topic_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.remove_subscription(
    client_id bigint,  -- the client
    topic_id bigint    -- the topic
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    subscription record;
BEGIN
    PERFORM pg_advisory_xact_lock(telesto.topic_lock_key(remove_subscription.topic_id));
    SELECT found.subscription_id, found.dropped_at INTO subscription
    FROM telesto.subscriptions AS found
    WHERE found.client_id = remove_subscription.client_id AND found.topic_id = remove_subscription.topic_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- A get that is under way may be about to move the position.
    PERFORM pg_advisory_xact_lock(telesto.subscription_lock_key(subscription.subscription_id));
    DELETE FROM telesto.positions AS old WHERE old.subscription_id = subscription.subscription_id;
    DELETE FROM telesto.subscriptions AS old
    WHERE old.client_id = remove_subscription.client_id
      AND old.subscription_id = subscription.subscription_id;
    IF subscription.dropped_at IS NULL THEN
        PERFORM telesto.count_subscribers(remove_subscription.topic_id, -1);
    END IF;
    RETURN true;
END
$$;
