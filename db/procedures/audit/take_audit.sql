-- Procedure:  take_audit
-- Purpose:    Takes what was changed in SQL and is in no file yet, for a middleware that has one.
-- Locks:      the rows; those that another middleware takes are left to it
-- Tables:     audit (update)
CREATE OR REPLACE FUNCTION telesto.take_audit(
    max_rows int       -- at most this many
)
RETURNS TABLE (
    at timestamptz,    -- when it was done
    event text,        -- what was done
    details text       -- to what, how and by whom, as JSON
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH taken AS (
        UPDATE telesto.audit AS line
        SET written = true
        WHERE line.audit_id = ANY (ARRAY(SELECT line.audit_id FROM telesto.audit AS line
                                         WHERE NOT line.written
                                         ORDER BY line.audit_id
                                         LIMIT max_rows
                                         FOR UPDATE SKIP LOCKED))
        RETURNING line.*
    )
    SELECT taken.at, taken.event, taken.details::text
    FROM taken
    ORDER BY taken.audit_id;
END
$$;
