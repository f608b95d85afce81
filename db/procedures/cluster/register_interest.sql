-- Procedure:  register_interest
-- Purpose:    Notes that reads wait at a middleware for messages of these queues.
-- Tables:     middlewares (read), interests (insert)
CREATE OR REPLACE FUNCTION telesto.register_interest(
    middleware_id bigint,  -- the middleware; one that was removed is not noted
    queue_ids bigint[]     -- the queues
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO telesto.interests (queue_id, middleware_id)
    SELECT queue.queue_id, middleware.middleware_id
    FROM (SELECT DISTINCT unnest(queue_ids) AS queue_id) AS queue
    CROSS JOIN LATERAL (SELECT middleware.middleware_id FROM telesto.middlewares AS middleware
                        WHERE middleware.middleware_id = register_interest.middleware_id
                        LIMIT 1) AS middleware
    ON CONFLICT DO NOTHING;
END
$$;
