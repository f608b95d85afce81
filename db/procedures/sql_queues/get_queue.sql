-- Procedure:  get_queue
-- Purpose:    Gives SQL users the id of the queue of a name, for the procedures that take one.
-- Returns:
--   bigint                  the queue
-- Errors:     TL032 PERMISSION_DENIED,
--             TL007 QUEUE_NOT_EXISTING
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.get_queue(
    name text  -- the name
)
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
BEGIN
    RETURN telesto.queue_of(telesto.sql_caller(), name);
END
$$;
