-- Procedure:  expiries_of
-- Purpose:    When messages expire: after the time that they or their queue say, whichever is shorter.
-- Returns:
--   timestamptz[]           per message; NULL for never
CREATE OR REPLACE FUNCTION telesto.expiries_of(
    queue_ids bigint[],    -- per message: its queue; negative for one that must not take it
    lives_ms bigint[],     -- per message: after how long it expires, in milliseconds; NULL for a message, or for all,
                           -- that does not say
    queues bigint[],       -- the distinct queues, sorted
    queue_lives bigint[],  -- per queue: after how long its messages expire, in milliseconds; NULL for never
    arrived timestamptz    -- when they are put
)
RETURNS timestamptz[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT array_agg(arrived + make_interval(
           secs => least(message.life_ms, queue_lives[telesto.sorted_index(message.queue_id, queues)]) / 1000.0)
           ORDER BY message.i)
FROM (SELECT unnest(queue_ids) AS queue_id, unnest(lives_ms) AS life_ms,
             generate_series(1, cardinality(queue_ids)) AS i) AS message
$$;
