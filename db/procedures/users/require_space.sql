-- Procedure:  require_space
-- Purpose:    Refuses a put of the caller of a SQL procedure whose user has stored as much as it may, as it was measured last.
-- Errors:     TL076 QUOTA_EXCEEDED
-- Tables:     user_usage (read)
CREATE OR REPLACE FUNCTION telesto.require_space(
    caller telesto.users  -- see sql_caller; one that has such a quota
)
RETURNS void
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    usage telesto.user_usage;
BEGIN
    SELECT row.* INTO usage FROM telesto.user_usage AS row WHERE row.user_id = caller.user_id;
    IF usage.stored_messages >= caller.max_stored_messages THEN
        PERFORM telesto.raise_error(:QUOTA_EXCEEDED, format(
            'user %L has stored %s messages and may have no more than %s (quota stored-messages)',
            caller.name, usage.stored_messages, caller.max_stored_messages));
    ELSIF usage.stored_bytes >= caller.max_stored_bytes THEN
        PERFORM telesto.raise_error(:QUOTA_EXCEEDED, format(
            'user %L has stored %s bytes and may have no more than %s (quota stored-bytes)',
            caller.name, usage.stored_bytes, caller.max_stored_bytes));
    END IF;
END
$$;
