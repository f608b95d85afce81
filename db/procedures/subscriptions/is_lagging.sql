-- Procedure:  is_lagging
-- Purpose:    Compares a subscription with its limit.
-- Returns:
--   boolean                 whether it is beyond one of them
-- Tables:     topic_states, topic_messages, positions (read)
CREATE OR REPLACE FUNCTION telesto.is_lagging(
    of_subscription bigint,  -- the subscription
    of_topic bigint,         -- its topic
    max_behind bigint,       -- its limit in messages; NULL for none
    max_age_ms bigint        -- its limit in milliseconds; NULL for none
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    reached bigint;
    last bigint;
    arrived timestamptz;
BEGIN
    SELECT known.position INTO reached
    FROM telesto.positions AS known
    WHERE known.subscription_id = of_subscription
    ORDER BY known.version DESC
    LIMIT 1;
    SELECT state.last_number INTO last
    FROM telesto.topic_states AS state
    WHERE state.topic_id = of_topic
    ORDER BY state.version DESC
    LIMIT 1;
    IF max_age_ms IS NOT NULL AND last > reached THEN
        SELECT message.time_of_arrival INTO arrived
        FROM telesto.topic_messages AS message
        WHERE message.topic_id = of_topic AND message.number = reached + 1;
    END IF;
    RETURN coalesce(last - reached > max_behind, false)
           OR coalesce(arrived < clock_timestamp() - make_interval(secs => max_age_ms / 1000.0), false);
END
$$;
