-- Procedure:  list_consumers
-- Purpose:    A page of the consumers, by rising id, for people.
-- Tables:     consumers, queues, clients, leases (read)
CREATE OR REPLACE FUNCTION telesto.list_consumers(
    after_id bigint,             -- the last consumer of the page before; 0 for the first page
    max_rows int,                -- at most this many
    of_queue bigint,             -- only those of this queue; NULL for all
    visible text[] DEFAULT NULL  -- only those of queues whose name matches one of these patterns; NULL for all
)
RETURNS TABLE (
    consumer_id bigint,     -- a consumer
    queue_id bigint,        -- its queue
    queue text,             -- that queue's name
    client_id bigint,       -- its client
    client text,            -- that client's name; NULL when the client is gone
    middleware_id bigint,   -- the middleware to which it is connected
    joined_at timestamptz,  -- since when
    leases bigint,          -- messages that it has, 1,000 for more
    paused boolean,         -- whether it has no credit of its own will
    slow boolean            -- whether it counts as slow
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    likes constant text[] := telesto.like_patterns(visible);
BEGIN
    RETURN QUERY
    SELECT consumer.consumer_id, consumer.queue_id, queue.name, consumer.client_id, client.name,
           consumer.middleware_id, consumer.joined_at,
           (SELECT count(*) FROM (SELECT FROM telesto.leases AS lease
                                  WHERE lease.consumer_id = consumer.consumer_id
                                  LIMIT 1000) AS lease),
           consumer.paused, coalesce(consumer.slow_until > clock_timestamp(), false)
    FROM (SELECT consumer.* FROM telesto.consumers AS consumer
          WHERE consumer.consumer_id > after_id AND (of_queue IS NULL OR consumer.queue_id = of_queue)
            AND (visible IS NULL OR EXISTS (SELECT FROM telesto.queues AS queue
                                            WHERE queue.queue_id = consumer.queue_id
                                              AND queue.name LIKE ANY (likes)))
          ORDER BY consumer.consumer_id
          LIMIT max_rows) AS consumer
    JOIN telesto.queues AS queue ON queue.queue_id = consumer.queue_id
    LEFT JOIN telesto.clients AS client ON client.client_id = consumer.client_id
    ORDER BY consumer.consumer_id;
END
$$;
