-- Procedure:  notify_puts
-- Purpose:    Tells other middlewares of messages that they may have readers for. Called after the puts have
--             committed and apart from them, because a NOTIFY takes a lock of the whole server at its commit.
--             A hint: nothing depends on its arrival.
-- Tables:     interests (read)
CREATE OR REPLACE FUNCTION telesto.notify_puts(
    middleware_id bigint,   -- who tells; it need not be told
    queue_ids bigint[],     -- per item: the queue
    receiver_ids bigint[],  -- per item: for whom; 0 for anyone
    counts int[]            -- per item: how many messages
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    -- A payload may have 8000 bytes; the last item of a part and the prefix come on top of these.
    part_bytes constant int := 6800;
BEGIN
    PERFORM pg_notify('telesto_wake', notify_puts.middleware_id || ';' || string_agg(item.text, ',' ORDER BY item.i))
    FROM (SELECT item.i, item.text,
                 sum(length(item.text) + 1) OVER (ORDER BY item.i ROWS UNBOUNDED PRECEDING) / part_bytes AS part
          FROM (SELECT item.i, concat_ws(':', item.queue_id, item.receiver_id, item.n) AS text
                FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id,
                             unnest(counts) AS n, generate_series(1, cardinality(queue_ids)) AS i) AS item
                CROSS JOIN LATERAL (SELECT FROM telesto.interests AS interest
                                    WHERE interest.queue_id = item.queue_id
                                      AND interest.middleware_id <> notify_puts.middleware_id
                                    LIMIT 1) AS interest) AS item) AS item
    GROUP BY item.part;
END
$$;
