-- Procedure:  get_active_queues
-- Purpose:    Tells a SQL user which queues hold a message that a client may read, by rising id.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL005 CLIENT_NOT_EXISTING
-- Tables:     clients, queues, put_states, take_states, receiver_states, messages (read)
CREATE OR REPLACE FUNCTION telesto.get_active_queues(
    client_id bigint,           -- the client
    after_id bigint DEFAULT 0,  -- only queues above this id, for the next page
    max_rows int DEFAULT 1000   -- at most this many
)
RETURNS TABLE (
    queue_id bigint,  -- a queue
    name text         -- its name
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
DECLARE
    caller constant telesto.users := telesto.sql_caller();
BEGIN
    PERFORM telesto.require_client(caller, client_id, false);
    RETURN QUERY SELECT page.* FROM telesto.list_active_queues(client_id, after_id, max_rows,
                                                                 telesto.seen_patterns(caller)) AS page;
END
$$;
