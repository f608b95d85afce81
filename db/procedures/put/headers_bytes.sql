-- Procedure:  headers_bytes
-- Purpose:    How many bytes the headers of a message take on the wire, which count as bytes of its body.
-- Returns:
--   int
CREATE OR REPLACE FUNCTION telesto.headers_bytes(
    headers jsonb  -- the headers, an object of texts; NULL without
)
RETURNS int
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
SELECT (16 + coalesce(sum(4 + octet_length(header.key) + octet_length(header.value)), 0))::int
FROM jsonb_each_text(headers) AS header (key, value)
$$;
