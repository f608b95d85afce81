-- Procedure:  drop_subscription
-- Purpose:    Drops a subscription that is lagging: it is owed nothing more, and the client's next get tells.
-- Returns:
--   boolean                 whether it was dropped; false when it is in use, or gone
-- Errors:     none raised
-- Locks:      the topic, the subscription (try)
-- Tables:     subscriptions (update), positions (delete), topic_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.drop_subscription(
    client_id bigint,        -- the client
    subscription_id bigint,  -- the subscription
    topic_id bigint          -- its topic
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    IF NOT pg_try_advisory_xact_lock(telesto.topic_lock_key(drop_subscription.topic_id))
            OR NOT pg_try_advisory_xact_lock(telesto.subscription_lock_key(drop_subscription.subscription_id)) THEN
        RETURN false;
    END IF;
    UPDATE telesto.subscriptions AS subscription
    SET dropped_at = clock_timestamp()
    WHERE subscription.client_id = drop_subscription.client_id
      AND subscription.subscription_id = drop_subscription.subscription_id
      AND subscription.dropped_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM telesto.positions AS old WHERE old.subscription_id = drop_subscription.subscription_id;
    PERFORM telesto.count_subscribers(drop_subscription.topic_id, -1);
    RETURN true;
END
$$;
