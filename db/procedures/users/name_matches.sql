-- Procedure:  name_matches
-- Purpose:    Whether a name matches one of some patterns, as a whole and with upper and lower case told apart.
-- Returns:
--   boolean  false for no patterns
CREATE OR REPLACE FUNCTION telesto.name_matches(
    patterns text[],  -- the patterns, see like_patterns
    name text         -- the name
)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT name LIKE ANY (telesto.like_patterns(patterns)) $$;
