-- Procedure:  put_keyed
-- Purpose:    Puts messages into their partitions, and notes which partitions were reached.
-- Locks:      none; the caller holds the queues' put locks
-- Tables:     keyed_messages, partition_arrivals (insert)
CREATE OR REPLACE FUNCTION telesto.put_keyed(
    sender_ids bigint[],     -- per request: who puts
    element_requests int[],  -- per message: its request; NULL when each message has its own
    queue_ids bigint[],      -- per message: its queue
    priorities smallint[],   -- per message: 1 to 10
    contexts bigint[],       -- per message: connects request and response; NULL without
    bodies bytea[],          -- per message: the content
    headers jsonb[],         -- per message: its headers; NULL for a message, or for all, without
    message_ids bigint[],    -- per message: its id; 0 or below for one that is not put
    keys text[],             -- per message: the key of its partition; NULL without
    delays_ms bigint[],      -- per message: how long nobody gets it, in milliseconds; NULL for a message, or for all
    expiries timestamptz[],  -- per message: when it expires; NULL for a message, or for all, that does not
    arrived timestamptz,     -- when they are put
    histories smallint[],    -- per message: what the history keeps of it
    middleware_id int        -- through which middleware
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    WITH put AS (
        INSERT INTO telesto.keyed_messages AS message (queue_id, sender_id, partition_key, message_id, context,
                                                       time_of_arrival, due_at, expires_at, attempt, priority,
                                                       redelivered, body, headers, history, put_through)
        SELECT element.queue_id, sender_ids[coalesce(element.request, element.i)], element.partition_key,
               element.message_id, element.context, arrived,
               least(arrived + make_interval(secs => element.delay_ms / 1000.0),
                     CASE WHEN element.delay_ms IS NOT NULL THEN element.expires_at END),
               element.expires_at, 0, element.priority, false, element.body, element.headers, element.history,
               middleware_id
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(priorities) AS priority, unnest(contexts) AS context,
                     unnest(bodies) AS body, unnest(headers) AS headers, unnest(message_ids) AS message_id,
                     unnest(keys) AS partition_key,
                     unnest(delays_ms) AS delay_ms, unnest(expiries) AS expires_at,
                     unnest(element_requests) AS request, unnest(histories) AS history,
                     generate_series(1, cardinality(queue_ids)) AS i) AS element
        WHERE element.message_id > 0 AND element.partition_key IS NOT NULL
        RETURNING message.queue_id, message.sender_id, message.partition_key, message.message_id
    )
    INSERT INTO telesto.partition_arrivals (queue_id, message_id, sender_id, partition_key)
    SELECT put.queue_id, min(put.message_id), put.sender_id, put.partition_key
    FROM put
    GROUP BY put.queue_id, put.sender_id, put.partition_key;
END
$$;
