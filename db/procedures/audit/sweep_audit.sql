-- Procedure:  sweep_audit
-- Purpose:    Removes what the table of the audit log has kept long enough.
-- Tables:     audit (delete)
CREATE OR REPLACE FUNCTION telesto.sweep_audit(
    max_rows int,                  -- at most this many
    audit_days double precision,   -- how long it is kept, in days
    OUT done bigint,               -- how many were removed
    OUT more boolean               -- whether there is more to do
)
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM telesto.audit AS line
    WHERE line.ctid = ANY (ARRAY(SELECT old.ctid FROM telesto.audit AS old
                                 WHERE old.at < clock_timestamp() - make_interval(secs => audit_days * 86400)
                                 ORDER BY old.at
                                 LIMIT max_rows));
    GET DIAGNOSTICS done = ROW_COUNT;
    more := done = max_rows;
END
$$;
