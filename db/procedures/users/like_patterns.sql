-- Procedure:  like_patterns
-- Purpose:    Turns patterns of names into those of LIKE. In a pattern * stands for any characters, ? for one, and \
--             before one of *, ? and \ has it stand for itself; anything else stands for itself. Middlewares decide in
--             the same way (middleware/security/users.py).
-- Returns:
--   text[]  one for each
CREATE OR REPLACE FUNCTION telesto.like_patterns(
    patterns text[]  -- the patterns, without control characters
)
RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
-- Three control characters stand for \\, \* and \? while the others are turned into what LIKE knows.
SELECT coalesce(array_agg(
    replace(replace(replace(
    replace(replace(replace(replace(replace(
    replace(replace(replace(pattern, '\\', E'\x01'), '\*', E'\x02'), '\?', E'\x03'),
    '\', '\\'), '%', '\%'), '_', '\_'), '*', '%'), '?', '_'),
    E'\x01', '\\'), E'\x02', '*'), E'\x03', '?')), '{}')
FROM unnest(patterns) AS pattern
$$;
