-- Procedure:  check_headers
-- Purpose:    Checks the headers that a SQL user gives a message.
-- Errors:     TL012 INVALID_PARAMETER
CREATE OR REPLACE FUNCTION telesto.check_headers(
    headers jsonb  -- the headers; NULL without
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    header record;
    n int := 0;
    bytes int := 0;
BEGIN
    IF headers IS NULL THEN
        RETURN;
    ELSIF jsonb_typeof(headers) <> 'object' THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('headers are an object of texts, not %s',
                                               jsonb_typeof(headers)));
    END IF;
    FOR header IN SELECT each.key, each.value, each.value #>> '{}' AS text FROM jsonb_each(headers) AS each LOOP
        n := n + 1;
        bytes := bytes + octet_length(header.key) + coalesce(octet_length(header.text), 0);
        IF octet_length(header.key) NOT BETWEEN 1 AND 128 THEN
            PERFORM telesto.raise_error(:INVALID_PARAMETER, format('the name of a header has %s bytes, but 1 to 128 are '
                                                   'allowed', octet_length(header.key)));
        ELSIF header.key ~ '[\u0001-\u001F\u007F-\u009F]' THEN
            PERFORM telesto.raise_error(:INVALID_PARAMETER, 'the name of a header has no control characters');
        ELSIF jsonb_typeof(header.value) <> 'string' THEN
            PERFORM telesto.raise_error(:INVALID_PARAMETER, format('header %s is a text, not %s', header.key,
                                                   jsonb_typeof(header.value)));
        ELSIF octet_length(header.text) > 1024 THEN
            PERFORM telesto.raise_error(:INVALID_PARAMETER, format('header %s has %s bytes, but at most 1024 are allowed',
                                                   header.key, octet_length(header.text)));
        END IF;
    END LOOP;
    IF n > 64 THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('%s headers are too many: 64 are allowed', n));
    ELSIF bytes > 8192 THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('headers of %s bytes are too long: 8192 are allowed',
                                               bytes));
    END IF;
END
$$;
