-- Procedure:  list_middlewares
-- Purpose:    A page of the running middlewares, by rising id, for people.
-- Tables:     middlewares, consumers (read)
CREATE OR REPLACE FUNCTION telesto.list_middlewares(
    after_id bigint,  -- the last middleware of the page before; 0 for the first page
    max_rows int      -- at most this many
)
RETURNS TABLE (
    middleware_id bigint,      -- a middleware
    address text,              -- where clients reach it
    version text,              -- its release
    started_at timestamptz,    -- since when it runs
    heartbeat_at timestamptz,  -- its last sign of life
    consumers bigint           -- consumers that are connected to it
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT middleware.middleware_id, middleware.address, middleware.version, middleware.started_at,
           middleware.heartbeat_at,
           (SELECT count(*) FROM telesto.consumers AS consumer
            WHERE consumer.middleware_id = middleware.middleware_id)
    FROM telesto.middlewares AS middleware
    WHERE middleware.middleware_id > after_id
    ORDER BY middleware.middleware_id
    LIMIT max_rows;
END
$$;
