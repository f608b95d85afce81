-- Procedure:  fetch_batch
-- Purpose:    Gets messages of topics, for many requests of many clients in one transaction, and moves the
--             positions of subscriptions up to what the requests confirm. Nothing is taken: what is not
--             confirmed is found again. A client's own messages of several topics come in the order of their
--             arrival, those of one topic always in the order of their numbers.
-- Locks:      clients (shared, try), subscriptions whose positions move (try)
-- Tables:     clients, topics, topic_states, subscriptions, topic_messages (read), positions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.fetch_batch(
    client_ids bigint[],              -- per request: who asks
    sessions bigint[],                -- per request: the session
    subscriptions bigint[],           -- per request: the subscription; 0 to name the topic, -1 for all of the client's
    topics text[],                    -- per request: the topic's name with 0, else NULL
    max_messages int[],               -- per request: how many messages at most; 0 only confirms
    max_bytes int[],                  -- per request: how many bytes of bodies at most
    confirmed bigint[],               -- per request: all messages of the subscription that it names are confirmed up to
                                      -- this number; 0 for what is known
    afters bigint[],                  -- per request: messages of that subscription are wanted from behind this number
                                      -- on; 0 for what is confirmed
    position_requests int[],          -- per position of another subscription: the request, counted from 1
    position_subscriptions bigint[],  -- the subscription; one that the client does not have is passed over
    position_confirmed bigint[],      -- as confirmed
    position_afters bigint[]          -- as afters
)
RETURNS SETOF telesto.fetched_message
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    request_count constant int := cardinality(client_ids);
    verdicts smallint[];
    related bigint[];
    target_requests int[];
    target_subscriptions bigint[];
    target_topics bigint[];
    target_wanted boolean[];
    target_confirmed bigint[];
    target_afters bigint[];
    target_positions bigint[];
    target_lasts bigint[];
    plain boolean := false;
    moved boolean := false;
BEGIN
    SELECT fence.errors INTO verdicts
    FROM telesto.fence_requests(client_ids, sessions) AS fence;

    -- The usual case: each request names one subscription and tells of no other.
    IF verdicts IS NULL AND cardinality(position_requests) = 0 AND 0 < ALL (subscriptions) THEN
        SELECT targets.plain, targets.topics, targets.positions, targets.lasts
        INTO plain, target_topics, target_positions, target_lasts
        FROM telesto.plain_targets(client_ids, subscriptions, confirmed, afters) AS targets;
    END IF;
    verdicts := coalesce(verdicts, array_fill(NULL::smallint, ARRAY[request_count]));
    related := array_fill(NULL::bigint, ARRAY[request_count]);
    IF plain THEN
        target_requests := ARRAY(SELECT generate_series(1, request_count));
        target_subscriptions := subscriptions;
        target_wanted := array_fill(true, ARRAY[request_count]);
        target_confirmed := confirmed;
        target_afters := afters;
    ELSE
        SELECT targets.requests, targets.subscriptions, targets.topics, targets.wanted, targets.confirmed,
               targets.afters, targets.positions, targets.lasts, targets.verdicts, targets.related
        INTO target_requests, target_subscriptions, target_topics, target_wanted, target_confirmed, target_afters,
             target_positions, target_lasts, verdicts, related
        FROM telesto.fetch_targets(client_ids, subscriptions, topics, max_messages, verdicts, related, confirmed,
                                   afters, position_requests, position_subscriptions, position_confirmed,
                                   position_afters) AS targets;
    END IF;

    IF EXISTS (SELECT FROM (SELECT unnest(target_confirmed) AS confirmed, unnest(target_positions) AS position)
                           AS target
               WHERE target.confirmed > target.position) THEN
        SELECT move.positions, move.verdicts, move.moved INTO target_positions, verdicts, moved
        FROM telesto.move_positions(verdicts, target_requests, target_subscriptions, target_confirmed,
                                    target_positions) AS move;
    END IF;

    RETURN QUERY
    SELECT failed.i, failed.verdict, failed.related_id, NULL::bigint[], NULL::bigint, NULL::text, NULL::bigint,
           NULL::bigint, NULL::timestamptz, NULL::bytea, NULL::jsonb
    FROM (SELECT unnest(verdicts) AS verdict, unnest(related) AS related_id,
                 generate_series(1, request_count) AS i) AS failed
    WHERE failed.verdict IS NOT NULL;

    RETURN QUERY
    SELECT target.request, NULL::smallint, NULL::bigint, array_agg(target.topic_id), NULL::bigint, NULL::text,
           NULL::bigint, NULL::bigint, NULL::timestamptz, NULL::bytea, NULL::jsonb
    FROM (SELECT unnest(target_requests) AS request, unnest(target_topics) AS topic_id,
                 unnest(target_lasts) AS last, unnest(target_positions) AS position,
                 unnest(target_afters) AS after, unnest(target_wanted) AS wanted) AS target
    WHERE target.wanted AND verdicts[target.request] IS NULL
    GROUP BY target.request
    HAVING bool_and(greatest(target.position, target.after) >= target.last);

    IF plain THEN
        RETURN QUERY
        SELECT target.request, CASE WHEN message.size > target.max_bytes THEN :MESSAGE_TOO_LARGE::smallint END,
               CASE WHEN message.size > target.max_bytes THEN message.number END, NULL::bigint[],
               target.subscription_id, NULL::text, message.number, message.sender_id, message.time_of_arrival,
               CASE WHEN message.size <= target.max_bytes THEN message.body END,
               CASE WHEN message.size <= target.max_bytes THEN message.headers END
        FROM (SELECT unnest(target_subscriptions) AS subscription_id, unnest(target_topics) AS topic_id,
                     greatest(unnest(target_afters), unnest(target_positions)) AS after, unnest(target_lasts) AS last,
                     unnest(max_messages) AS n, unnest(max_bytes) AS max_bytes, unnest(verdicts) AS verdict,
                     generate_series(1, request_count) AS request) AS target
        CROSS JOIN LATERAL (
            SELECT next.*,
                   sum(octet_length(next.body) + coalesce(telesto.headers_bytes(next.headers), 0))
                   OVER (ROWS UNBOUNDED PRECEDING) AS size,
                   row_number() OVER (ROWS UNBOUNDED PRECEDING) AS rank
            FROM (SELECT message.number, message.sender_id, message.time_of_arrival, message.body, message.headers
                  FROM telesto.topic_messages AS message
                  WHERE message.topic_id = target.topic_id
                    AND message.number > target.after
                    AND message.number <= target.last
                  ORDER BY message.number
                  LIMIT target.n) AS next) AS message
        WHERE target.after < target.last AND target.verdict IS NULL
          AND (message.size <= target.max_bytes OR message.rank = 1);
    ELSE
        RETURN QUERY
        SELECT found.* FROM telesto.find_topic_messages(
            subscriptions, max_messages, max_bytes, verdicts, target_requests, target_subscriptions, target_topics,
            target_wanted, target_afters, target_positions, target_lasts) AS found;
    END IF;
    -- What an answer shows, and that a position is where the request tells it to be, must be as safe as what a
    -- commit that waits for a standby left.
    IF NOT moved AND (FOUND OR 0 < ANY (target_confirmed)) THEN
        PERFORM pg_logical_emit_message(true, 'telesto', '');
    END IF;
END
$$;
