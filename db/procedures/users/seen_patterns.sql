-- Procedure:  seen_patterns
-- Purpose:    The queues and topics that the caller of a SQL procedure may see: those on which it has any right.
-- Returns:
--   text[]  patterns of their names; NULL for all
-- Errors:     TL032 PERMISSION_DENIED
-- Tables:     users, sql_users (read)
CREATE OR REPLACE FUNCTION telesto.seen_patterns()
RETURNS text[]
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    caller constant telesto.users := telesto.sql_caller();
BEGIN
    RETURN CASE WHEN NOT caller.monitor THEN caller.configure || caller.put || caller.get || caller.admin END;
END
$$;
