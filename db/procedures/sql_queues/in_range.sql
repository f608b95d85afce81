-- Procedure:  in_range
-- Purpose:    A number that a SQL user gives, if it may be that.
-- Returns:
--   bigint                  the number; NULL for NULL
-- Errors:     TL012 INVALID_PARAMETER
CREATE OR REPLACE FUNCTION telesto.in_range(
    name text,      -- the parameter
    number bigint,  -- what is given for it
    lowest bigint,  -- the least that is allowed
    highest bigint  -- the most that is allowed
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    IF number NOT BETWEEN lowest AND highest THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('%s %s is not between %s and %s', name, number, lowest, highest));
    END IF;
    RETURN number;
END
$$;
