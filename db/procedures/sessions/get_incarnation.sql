-- Procedure:  get_incarnation
-- Purpose:    The identity of this database: sessions and numbers mean something within one only.
-- Returns:
--   text                    a UUID, made once by the first migration
-- Tables:     installation (read)
CREATE OR REPLACE FUNCTION telesto.get_incarnation()
RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
AS $$ SELECT incarnation::text FROM telesto.installation LIMIT 1 $$;
