-- Procedure:  find_topic_messages
-- Purpose:    Finds the messages that gets are answered with.
-- Tables:     topic_messages, topics (read)
CREATE OR REPLACE FUNCTION telesto.find_topic_messages(
    wanted_subscriptions bigint[],  -- per request: the subscription that it names; 0 or below when it does not
    max_messages int[],             -- per request: how many messages at most
    max_bytes int[],                -- per request: how many bytes of bodies at most
    verdicts smallint[],            -- per request: NULL when it is answered with messages
    target_requests int[],          -- per target: its request
    target_subscriptions bigint[],  -- per target: the subscription
    target_topics bigint[],         -- per target: its topic
    target_wanted boolean[],        -- per target: whether messages are wanted
    target_afters bigint[],         -- per target: from behind which number on
    target_positions bigint[],      -- per target: what is confirmed
    target_lasts bigint[]           -- per target: the topic's last number
)
RETURNS SETOF telesto.fetched_message
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    -- All up to the last number read before is visible. Times of arrival follow the numbers but for a clock
    -- that was set back; the highest so far keeps each topic in its order.
    RETURN QUERY
    SELECT message.request, CASE WHEN message.size > max_bytes[message.request] THEN :MESSAGE_TOO_LARGE::smallint END,
           CASE WHEN message.size > max_bytes[message.request] THEN message.number END, NULL::bigint[],
           message.subscription_id,
           CASE WHEN wanted_subscriptions[message.request] <= 0 THEN
               (SELECT topic.name FROM telesto.topics AS topic WHERE topic.topic_id = message.topic_id) END,
           message.number, message.sender_id, message.time_of_arrival,
           CASE WHEN message.size <= max_bytes[message.request] THEN message.body END,
           CASE WHEN message.size <= max_bytes[message.request] THEN message.headers END
    FROM (SELECT found.*, row_number() OVER arrivals AS rank, sum(found.bytes) OVER arrivals AS size
          FROM (SELECT target.request, target.subscription_id, target.topic_id, message.*
                FROM (SELECT unnest(target_requests) AS request, unnest(target_subscriptions) AS subscription_id,
                             unnest(target_topics) AS topic_id, unnest(target_wanted) AS wanted,
                             greatest(unnest(target_afters), unnest(target_positions)) AS after,
                             unnest(target_lasts) AS last) AS target
                CROSS JOIN LATERAL (
                    SELECT next.number, next.sender_id, next.time_of_arrival, next.body, next.headers,
                           octet_length(next.body) + coalesce(telesto.headers_bytes(next.headers), 0) AS bytes,
                           max(next.time_of_arrival) OVER (ROWS UNBOUNDED PRECEDING) AS arrival
                    FROM (SELECT message.number, message.sender_id, message.time_of_arrival, message.body,
                                 message.headers
                          FROM telesto.topic_messages AS message
                          WHERE message.topic_id = target.topic_id
                            AND message.number > target.after
                            AND message.number <= target.last
                          ORDER BY message.number
                          LIMIT max_messages[target.request]) AS next) AS message
                WHERE target.wanted AND target.after < target.last AND verdicts[target.request] IS NULL) AS found
          WINDOW arrivals AS (PARTITION BY found.request ORDER BY found.arrival, found.topic_id, found.number
                              ROWS UNBOUNDED PRECEDING)) AS message
    WHERE message.rank <= max_messages[message.request]
      AND (message.size <= max_bytes[message.request] OR message.rank = 1)
    ORDER BY message.request, message.rank;
END
$$;
