-- Procedure:  seen_patterns
-- Purpose:    The queues and topics that the caller of a SQL procedure may see: those on which it has any right.
-- Returns:
--   text[]  patterns of their names; NULL for all
CREATE OR REPLACE FUNCTION telesto.seen_patterns(
    caller telesto.users  -- see sql_caller
)
RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN NOT caller.monitor THEN caller.configure || caller.put || caller.get || caller.admin END $$;
