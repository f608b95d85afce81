-- Procedure:  require_name
-- Purpose:    Refuses a name that a SQL user gives for a client or queue and that no client library would
--             accept.
-- Errors:     TL012 INVALID_PARAMETER
CREATE OR REPLACE FUNCTION telesto.require_name(
    name text  -- 1 to 255 characters that can be seen
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF name IS NULL OR char_length(name) NOT BETWEEN 1 AND 255 THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'a name has 1 to 255 characters');
    END IF;
    PERFORM telesto.refuse_invisible(name);
END
$$;
