-- Procedure:  name_matches
-- Purpose:    Whether a name matches one of some patterns, as a whole and with upper and lower case told apart. In a
--             pattern * stands for any characters, ? for one, and \ before one of *, ? and \ has it stand for itself.
--             Middlewares decide in the same way (middleware/security/users.py).
-- Returns:
--   boolean  false for no patterns
CREATE OR REPLACE FUNCTION telesto.name_matches(
    patterns text[],  -- the patterns, without control characters
    name text         -- the name
)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
-- Three control characters stand for \\, \* and \? while the others are turned into what LIKE knows.
SELECT coalesce(bool_or(name_matches.name COLLATE "C" LIKE
    replace(replace(replace(
    replace(replace(replace(replace(replace(
    replace(replace(replace(pattern, '\\', E'\x01'), '\*', E'\x02'), '\?', E'\x03'),
    '\', '\\'), '%', '\%'), '_', '\_'), '*', '%'), '?', '_'),
    E'\x01', '\\'), E'\x02', '*'), E'\x03', '?')), false)
FROM unnest(patterns) AS pattern
$$;
