-- Procedure:  withdraw_interest
-- Purpose:    Notes that no reads wait at a middleware for these queues any more.
-- Parameters:
--   middleware_id bigint    the middleware
--   queue_ids bigint[]      the queues
-- Returns:
--   void
-- Errors:     none raised
-- Locks:      none
-- Tables:     interests (delete)
CREATE OR REPLACE FUNCTION telesto.withdraw_interest(middleware_id bigint, queue_ids bigint[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, telesto, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM telesto.interests AS interest
    WHERE interest.middleware_id = withdraw_interest.middleware_id AND interest.queue_id = ANY (queue_ids);
END
$$;
