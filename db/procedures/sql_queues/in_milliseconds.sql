-- Procedure:  in_milliseconds
-- Purpose:    A length of time that a SQL user gives, in milliseconds, rounded up.
-- Returns:
--   bigint                  the milliseconds; NULL for NULL
-- Errors:     TL012 INVALID_PARAMETER
CREATE OR REPLACE FUNCTION telesto.in_milliseconds(
    name text,           -- the parameter
    duration interval,   -- what is given for it; a month has 30 days
    least_ms bigint,     -- the shortest that is allowed, in milliseconds
    most_ms bigint       -- the longest that is allowed, in milliseconds
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    milliseconds constant numeric := ceil(extract(epoch FROM duration) * 1000);
BEGIN
    IF duration < interval '0' OR milliseconds NOT BETWEEN least_ms AND most_ms THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('%s %s is not between %s and %s', name, duration,
                                               justify_hours(make_interval(secs => least_ms / 1000.0)),
                                               justify_hours(make_interval(secs => most_ms / 1000.0))));
    END IF;
    RETURN milliseconds;
END
$$;
