-- Procedure:  encode_body
-- Purpose:    Makes a body of bytes from a value that a SQL user puts: bytea as it is, text as UTF-8, json, jsonb and
--             everything else, such as a row, as JSON. Tells which by the header content-type, unless it is given.
CREATE OR REPLACE FUNCTION telesto.encode_body(
    body anyelement,       -- the value
    headers jsonb,         -- the headers that are given, which are not checked here; NULL without
    OUT content bytea,     -- the body
    OUT all_headers jsonb  -- the headers with content-type
)
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    type constant regtype := pg_typeof(body);
    content_type text;
BEGIN
    all_headers := headers;
    IF type = 'bytea'::regtype THEN
        content := body;
        RETURN;
    ELSIF type IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype, 'name'::regtype) THEN
        content := convert_to(body::text, 'UTF8');
        content_type := 'text/plain; charset=utf-8';
    ELSE
        content := convert_to(CASE WHEN type IN ('json'::regtype, 'jsonb'::regtype) THEN body::text
                                   ELSE to_json(body)::text END, 'UTF8');
        content_type := 'application/json';
    END IF;
    IF coalesce(jsonb_typeof(headers), 'object') = 'object' THEN
        all_headers := jsonb_build_object('content-type', content_type) || coalesce(headers, '{}');
    END IF;
END
$$;
