-- Procedure:  take_lost_leases
-- Purpose:    Tells a middleware which leases of its consumers have run out, once.
-- Tables:     lost_leases (delete)
CREATE OR REPLACE FUNCTION telesto.take_lost_leases(
    of_middleware bigint,  -- the middleware
    max_rows int           -- at most this many
)
RETURNS TABLE (
    consumer_id bigint,  -- the consumer
    lease_id bigint,     -- the lease
    message_id bigint    -- the message
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    PERFORM telesto.require_read_committed();
    RETURN QUERY
    DELETE FROM telesto.lost_leases AS lost
    WHERE lost.ctid = ANY (ARRAY(SELECT lost.ctid FROM telesto.lost_leases AS lost
                                 WHERE lost.middleware_id = of_middleware
                                 LIMIT max_rows))
    RETURNING lost.consumer_id, lost.lease_id, lost.message_id;
END
$$;
