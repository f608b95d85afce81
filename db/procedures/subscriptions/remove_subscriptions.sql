-- Procedure:  remove_subscriptions
-- Purpose:    Removes all that topics keep of a client: its subscriptions and its sequences.
-- Returns:
--   void
-- Errors:     none raised
-- Locks:      topics, subscriptions (wait); the caller holds the client's (exclusive)
-- Tables:     subscriptions (read, delete), positions (delete), topic_states (insert, delete), publisher_states
--             (delete)
CREATE OR REPLACE FUNCTION telesto.remove_subscriptions(
    of_client bigint  -- the client
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    topics constant bigint[] := ARRAY(SELECT subscription.topic_id FROM telesto.subscriptions AS subscription
                                      WHERE subscription.client_id = of_client
                                      ORDER BY subscription.topic_id);
BEGIN
    FOR i IN 1..cardinality(topics) LOOP
        PERFORM pg_advisory_xact_lock(telesto.topic_lock_key(topics[i]));
    END LOOP;
    FOR i IN 1..cardinality(topics) LOOP
        PERFORM telesto.remove_subscription(of_client, topics[i]);
    END LOOP;
    DELETE FROM telesto.publisher_states AS state WHERE state.client_id = of_client;
END
$$;
