-- Procedure:  withdraw_interest
-- Purpose:    Notes that no reads wait at a middleware for these queues any more.
-- Tables:     interests (delete)
CREATE OR REPLACE FUNCTION telesto.withdraw_interest(
    middleware_id bigint,  -- the middleware
    queue_ids bigint[]     -- the queues
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM telesto.interests AS interest
    WHERE interest.middleware_id = withdraw_interest.middleware_id AND interest.queue_id = ANY (queue_ids);
END
$$;
