-- Procedure:  audit_sql
-- Purpose:    Notes what the caller's SQL changed, as a part of its transaction.
-- Tables:     audit (insert)
CREATE OR REPLACE FUNCTION telesto.audit_sql(
    event text,    -- what was done
    details jsonb  -- to what, and how
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO telesto.audit (at, event, outcome, details, written)
    VALUES (clock_timestamp(), event, 'done',
            jsonb_build_object('role', session_user, 'peer', coalesce(host(inet_client_addr()), 'local')) || details,
            false);
END
$$;
