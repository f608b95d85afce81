-- Procedure:  fetch_targets
-- Purpose:    Finds the targets of gets. A target is a subscription of which a get wants messages, or whose position it
--             tells. Refuses gets that have no target, and those that tell what cannot be true.
-- Tables:     topics, topic_states, subscriptions, positions (read)
CREATE OR REPLACE FUNCTION telesto.fetch_targets(
    client_ids bigint[],              -- per request: who asks
    wanted_subscriptions bigint[],    -- per request: the subscription; 0 to name the topic, -1 for all
    topic_names text[],               -- per request: the topic's name with 0, else NULL
    max_messages int[],               -- per request: how many messages at most; 0 only confirms
    INOUT verdicts smallint[],        -- per request: NOT_SUBSCRIBED, POSITION_UNKNOWN and SUBSCRIPTION_DROPPED added
    INOUT related bigint[],           -- per request: the related id of these errors
    told_confirmed bigint[],          -- per request: what it confirms of the subscription that it names
    told_afters bigint[],             -- per request: from behind which number on messages of that are wanted
    position_requests int[],          -- per position of another subscription: its request
    position_subscriptions bigint[],  -- its subscription
    position_confirmed bigint[],      -- what it confirms
    position_afters bigint[],         -- from behind which number on messages are wanted
    OUT requests int[],               -- per target: the request
    OUT subscriptions bigint[],       -- per target: the subscription
    OUT topics bigint[],              -- per target: its topic
    OUT wanted boolean[],             -- per target: whether messages are wanted, not only a position told
    OUT confirmed bigint[],           -- per target: what the request confirms; 0 for nothing
    OUT afters bigint[],              -- per target: from behind which number on messages are wanted; 0 when not told
    OUT positions bigint[],           -- per target: the position as it is
    OUT lasts bigint[]                -- per target: the topic's last number
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    starts bigint[];
    dropped boolean[];
    distinct_topics bigint[];
    distinct_lasts bigint[];
    named bigint[];
    failed record;
BEGIN
    named := ARRAY(SELECT CASE WHEN request.name IS NOT NULL THEN telesto.find_topic(request.name) END
                   FROM unnest(topic_names) WITH ORDINALITY AS request (name, i) ORDER BY request.i);

    -- One target for each request and subscription, whether messages of it are wanted, its position is told, or both.
    SELECT array_agg(target.request), array_agg(target.subscription_id), array_agg(target.topic_id),
           array_agg(target.start_number), array_agg(target.dropped), array_agg(target.wanted),
           array_agg(target.confirmed), array_agg(target.after)
    INTO requests, subscriptions, topics, starts, dropped, wanted, confirmed, afters
    FROM (SELECT part.request, part.subscription_id, min(part.topic_id) AS topic_id,
                 min(part.start_number) AS start_number, bool_or(part.dropped) AS dropped,
                 bool_or(part.wanted) AS wanted, max(part.confirmed) AS confirmed, max(part.after) AS after
          FROM (SELECT request.i AS request, found.subscription_id, found.topic_id, found.start_number,
                       found.dropped_at IS NOT NULL AS dropped, true AS wanted, 0::bigint AS confirmed,
                       0::bigint AS after
                FROM (SELECT unnest(client_ids) AS client_id, unnest(wanted_subscriptions) AS subscription_id,
                             unnest(named) AS topic_id, unnest(max_messages) AS n, unnest(verdicts) AS verdict,
                             generate_series(1, cardinality(client_ids)) AS i) AS request
                CROSS JOIN LATERAL (
                    (SELECT subscription.* FROM telesto.subscriptions AS subscription
                     WHERE request.subscription_id > 0
                       AND subscription.client_id = request.client_id
                       AND subscription.subscription_id = request.subscription_id
                     LIMIT 1)
                    UNION ALL
                    (SELECT subscription.* FROM telesto.subscriptions AS subscription
                     WHERE request.subscription_id = 0
                       AND subscription.client_id = request.client_id
                       AND subscription.topic_id = request.topic_id
                     LIMIT 1)
                    UNION ALL
                    (SELECT subscription.* FROM telesto.subscriptions AS subscription
                     WHERE request.subscription_id < 0 AND subscription.client_id = request.client_id
                     ORDER BY subscription.client_id, subscription.subscription_id)) AS found
                WHERE request.verdict IS NULL AND request.n > 0
                UNION ALL
                SELECT told.request, found.subscription_id, found.topic_id, found.start_number, false, false,
                       told.confirmed, told.after
                FROM (SELECT unnest(position_requests) AS request,
                             unnest(position_subscriptions) AS subscription_id,
                             unnest(position_confirmed) AS confirmed, unnest(position_afters) AS after
                      UNION ALL
                      SELECT named.i, named.subscription_id, named.confirmed, named.after
                      FROM (SELECT unnest(wanted_subscriptions) AS subscription_id,
                                   unnest(told_confirmed) AS confirmed, unnest(told_afters) AS after,
                                   generate_series(1, cardinality(client_ids)) AS i) AS named
                      WHERE named.confirmed > 0 OR named.after > 0) AS told
                CROSS JOIN LATERAL (SELECT subscription.* FROM telesto.subscriptions AS subscription
                                    WHERE subscription.client_id = client_ids[told.request]
                                      AND subscription.subscription_id = told.subscription_id
                                      AND subscription.dropped_at IS NULL
                                    LIMIT 1) AS found
                WHERE verdicts[told.request] IS NULL) AS part
          GROUP BY part.request, part.subscription_id) AS target;

    -- The last number of each topic, and for each target that of its topic.
    SELECT array_agg(known.topic_id), array_agg(known.last_number)
    INTO distinct_topics, distinct_lasts
    FROM (SELECT topic.topic_id, coalesce(state.last_number, 0) AS last_number
          FROM (SELECT DISTINCT unnest(topics) AS topic_id ORDER BY 1) AS topic
          -- One that was left and deleted since is taken for empty.
          LEFT JOIN LATERAL (SELECT state.last_number FROM telesto.topic_states AS state
                             WHERE state.topic_id = topic.topic_id
                             ORDER BY state.version DESC
                             LIMIT 1) AS state ON true) AS known;

    SELECT array_agg(target.position), array_agg(target.last)
    INTO positions, lasts
    FROM (SELECT coalesce(known.position, 0) AS position,
                 distinct_lasts[telesto.sorted_index(target.topic_id, distinct_topics)] AS last
          FROM (SELECT unnest(subscriptions) AS subscription_id, unnest(topics) AS topic_id) AS target
          LEFT JOIN LATERAL (SELECT known.position FROM telesto.positions AS known
                             WHERE known.subscription_id = target.subscription_id
                             ORDER BY known.version DESC
                             LIMIT 1) AS known ON true) AS target;

    -- A position beyond the topic's end, or before the subscription's start, cannot be true.
    FOR failed IN
        SELECT request.i, coalesce(min(request.code), :NOT_SUBSCRIBED) AS code,
               min(request.related_id) FILTER (WHERE request.code IS NOT NULL) AS related_id
        FROM (SELECT asked.i, CASE WHEN asked.n > 0 THEN 0 ELSE 1 END AS targets, NULL::int AS code,
                     NULL::bigint AS related_id
              FROM (SELECT unnest(max_messages) AS n, generate_series(1, cardinality(client_ids)) AS i) AS asked
              UNION ALL
              SELECT target.request, CASE WHEN target.wanted THEN 1 ELSE 0 END,
                     CASE WHEN target.told > target.last OR (target.confirmed > 0 AND target.confirmed < target.start)
                               OR (target.after > 0 AND target.after < target.start) THEN :POSITION_UNKNOWN
                          WHEN target.dropped THEN :SUBSCRIPTION_DROPPED END,
                     CASE WHEN target.dropped THEN target.subscription_id ELSE target.last END
              FROM (SELECT unnest(requests) AS request, unnest(wanted) AS wanted,
                           unnest(confirmed) AS confirmed, unnest(afters) AS after,
                           greatest(unnest(confirmed), unnest(afters)) AS told, unnest(starts) AS start,
                           unnest(lasts) AS last, unnest(dropped) AS dropped,
                           unnest(subscriptions) AS subscription_id) AS target) AS request
        WHERE verdicts[request.i] IS NULL
        GROUP BY request.i
        HAVING min(request.code) IS NOT NULL OR sum(request.targets) = 0
    LOOP
        verdicts[failed.i] := failed.code;
        related[failed.i] := failed.related_id;
    END LOOP;
END
$$;
