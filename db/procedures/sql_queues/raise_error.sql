-- Procedure:  raise_error
-- Purpose:    Ends a call of a SQL user with one of Telesto's errors: its SQLSTATE is TL and the code.
-- Errors:     TLnnn, always
CREATE OR REPLACE FUNCTION telesto.raise_error(
    code int,     -- the error's code
    details text  -- what was wrong, with the caller's own figures; becomes the message
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION '%', details USING ERRCODE = 'TL' || lpad(code::text, 3, '0');
END
$$;
