-- Procedure:  require_right
-- Purpose:    Refuses a call of a SQL user who has not the right that it needs on a queue or topic, whether that exists or
--             not.
-- Errors:     TL032 PERMISSION_DENIED
CREATE OR REPLACE FUNCTION telesto.require_right(
    caller telesto.users,  -- see sql_caller
    wanted text,           -- the right: configure, put, get or admin
    name text              -- the queue or topic
)
RETURNS void
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF caller.user_id IS NOT NULL
       AND NOT telesto.name_matches(CASE wanted WHEN 'configure' THEN caller.configure WHEN 'put' THEN caller.put
                                                WHEN 'get' THEN caller.get WHEN 'admin' THEN caller.admin END, name) THEN
        PERFORM telesto.raise_error(:PERMISSION_DENIED, format(
            'user %L has not the right %s on %L; to allow it: telesto user allow ''%s'' --%s ''%s''',
            caller.name, wanted, name,
            -- As a shell reads them, in which a quote ends the text; the second one is a pattern.
            replace(caller.name, '''', $quote$'\''$quote$), wanted,
            replace(regexp_replace(name, '([*?\\])', '\\\1', 'g'), '''', $quote$'\''$quote$)));
    END IF;
END
$$;
