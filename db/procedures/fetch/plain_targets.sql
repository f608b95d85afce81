-- Procedure:  plain_targets
-- Purpose:    Does what fetch_targets does where each get names one subscription and tells the position of no other.
-- Tables:     topic_states, subscriptions, positions (read)
CREATE OR REPLACE FUNCTION telesto.plain_targets(
    client_ids bigint[],     -- per request: who asks
    subscriptions bigint[],  -- per request: the subscription
    confirmed bigint[],      -- per request: what it confirms
    afters bigint[],         -- per request: from behind which number on messages are wanted
    OUT plain boolean,       -- whether all subscriptions are there and all that is told can be true; if not, the rest
                             -- means nothing
    OUT topics bigint[],     -- per request: the topic
    OUT positions bigint[],  -- per request: the position as it is
    OUT lasts bigint[]       -- per request: the topic's last number
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    distinct_topics bigint[];
    distinct_lasts bigint[];
BEGIN
    SELECT bool_and(found.dropped_at IS NULL AND known.position IS NOT NULL
                    AND (target.confirmed = 0 OR target.confirmed >= found.start_number)
                    AND (target.after = 0 OR target.after >= found.start_number)),
           array_agg(found.topic_id), array_agg(known.position)
    INTO plain, topics, positions
    FROM (SELECT unnest(client_ids) AS client_id, unnest(subscriptions) AS subscription_id,
                 unnest(confirmed) AS confirmed, unnest(afters) AS after) AS target
    LEFT JOIN LATERAL (SELECT found.topic_id, found.start_number, found.dropped_at
                       FROM telesto.subscriptions AS found
                       WHERE found.client_id = target.client_id AND found.subscription_id = target.subscription_id
                       LIMIT 1) AS found ON true
    LEFT JOIN LATERAL (SELECT known.position FROM telesto.positions AS known
                       WHERE found.topic_id IS NOT NULL AND known.subscription_id = target.subscription_id
                       ORDER BY known.version DESC
                       LIMIT 1) AS known ON true;
    IF NOT plain THEN
        RETURN;
    END IF;

    SELECT array_agg(known.topic_id), array_agg(known.last_number)
    INTO distinct_topics, distinct_lasts
    FROM (SELECT topic.topic_id, coalesce(state.last_number, 0) AS last_number
          FROM (SELECT DISTINCT unnest(topics) AS topic_id ORDER BY 1) AS topic
          -- One that was left and deleted since is taken for empty.
          LEFT JOIN LATERAL (SELECT state.last_number FROM telesto.topic_states AS state
                             WHERE state.topic_id = topic.topic_id
                             ORDER BY state.version DESC
                             LIMIT 1) AS state ON true) AS known;
    IF cardinality(distinct_topics) = 1 THEN
        lasts := array_fill(distinct_lasts[1], ARRAY[cardinality(topics)]);
    ELSE
        lasts := ARRAY(SELECT distinct_lasts[telesto.sorted_index(target.topic_id, distinct_topics)]
                       FROM (SELECT unnest(topics) AS topic_id) AS target);
    END IF;
    plain := NOT EXISTS (SELECT FROM (SELECT unnest(confirmed) AS confirmed, unnest(afters) AS after,
                                             unnest(lasts) AS last) AS target
                         WHERE target.confirmed > target.last OR target.after > target.last);
END
$$;
