-- Procedure:  orphaned_consumers
-- Purpose:    Finds consumers that are gone without having left: their middleware is not there any more, or their
--             client is gone or has opened another session.
-- Tables:     consumers, middlewares, clients (read)
CREATE OR REPLACE FUNCTION telesto.orphaned_consumers(
    max_rows int  -- at most this many
)
RETURNS TABLE (
    queue_id bigint,    -- the queue
    consumer_id bigint  -- the consumer
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT consumer.queue_id, consumer.consumer_id
    FROM telesto.consumers AS consumer
    LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.middlewares AS middleware
                       WHERE middleware.middleware_id = consumer.middleware_id
                       LIMIT 1) AS middleware ON true
    LEFT JOIN LATERAL (SELECT client.session FROM telesto.clients AS client
                       WHERE client.client_id = consumer.client_id
                       LIMIT 1) AS client ON true
    WHERE middleware.yes IS NULL OR client.session IS DISTINCT FROM consumer.session
    ORDER BY consumer.queue_id, consumer.consumer_id
    LIMIT max_rows;
END
$$;
