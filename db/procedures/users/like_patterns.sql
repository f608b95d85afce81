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
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
-- All at once, as one text with a control character between them, so that the planner makes it a part of the
-- statement that calls this. Three more stand for \\, \* and \? while the others are turned into what LIKE knows.
SELECT coalesce(string_to_array(
    replace(replace(replace(
    replace(replace(replace(replace(replace(
    replace(replace(replace(array_to_string(patterns, E'\x04'), '\\', E'\x01'), '\*', E'\x02'), '\?', E'\x03'),
    '\', '\\'), '%', '\%'), '_', '\_'), '*', '%'), '?', '_'),
    E'\x01', '\\'), E'\x02', '*'), E'\x03', '?'), E'\x04'), '{}')
$$;
