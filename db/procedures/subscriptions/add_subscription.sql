-- Procedure:  add_subscription
-- Purpose:    Adds a subscription from behind the topic's last number on.
-- Errors:     check_violation for a limit out of range
-- Locks:      the topic (wait)
-- Tables:     topics (read), subscriptions (read, insert, delete), positions (insert, delete), topic_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.add_subscription(
    client_id bigint,            -- the client
    topic_id bigint,             -- the topic
    max_behind bigint,           -- its limit in messages; NULL for none
    max_age_ms bigint,           -- its limit in milliseconds; NULL for none
    drop_lagging boolean,        -- whether it is dropped beyond its limit
    OUT subscription_id bigint,  -- the new subscription, or the one that there is
    OUT created boolean          -- whether it is new; NULL, and nothing is done, when the topic was deleted meanwhile
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    existing record;
    last bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(telesto.topic_lock_key(add_subscription.topic_id));
    PERFORM FROM telesto.topics AS topic WHERE topic.topic_id = add_subscription.topic_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT subscription.subscription_id, subscription.dropped_at INTO existing
    FROM telesto.subscriptions AS subscription
    WHERE subscription.client_id = add_subscription.client_id
      AND subscription.topic_id = add_subscription.topic_id;
    IF FOUND AND existing.dropped_at IS NULL THEN
        add_subscription.subscription_id := existing.subscription_id;
        created := false;
        RETURN;
    END IF;
    DELETE FROM telesto.subscriptions AS subscription
    WHERE subscription.client_id = add_subscription.client_id
      AND subscription.subscription_id = existing.subscription_id;

    last := telesto.count_subscribers(add_subscription.topic_id, 1);
    add_subscription.subscription_id := nextval('telesto.subscription_ids');
    created := true;
    INSERT INTO telesto.subscriptions (client_id, subscription_id, topic_id, start_number, max_behind,
                                       max_age_ms, drop_lagging)
    VALUES (add_subscription.client_id, add_subscription.subscription_id, add_subscription.topic_id, last,
            add_subscription.max_behind, add_subscription.max_age_ms, add_subscription.drop_lagging);
    INSERT INTO telesto.positions (subscription_id, version, position)
    VALUES (add_subscription.subscription_id, 1, last);
END
$$;
