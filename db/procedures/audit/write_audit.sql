-- Procedure:  write_audit
-- Purpose:    Keeps lines of a middleware's audit log in the table.
-- Tables:     audit (insert)
CREATE OR REPLACE FUNCTION telesto.write_audit(
    lines jsonb[]  -- the lines
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
    INSERT INTO telesto.audit (at, event, outcome, details, written)
    SELECT (line ->> 'time')::timestamptz, line ->> 'event', line ->> 'outcome', line - '{time,event,outcome}'::text[],
           true
    FROM unnest(lines) AS line;
END
$$;
