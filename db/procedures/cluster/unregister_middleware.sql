-- Procedure:  unregister_middleware
-- Purpose:    Takes a middleware that stops off the list, with its interests, and frees its jobs for others.
-- Tables:     middlewares, interests, lost_leases (delete), jobs (update)
CREATE OR REPLACE FUNCTION telesto.unregister_middleware(
    middleware_id bigint  -- the middleware
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
    PERFORM telesto.forget_middlewares(ARRAY[middleware_id]);
END
$$;
