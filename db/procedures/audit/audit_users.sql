-- Procedure:  audit_users
-- Purpose:    Notes a change of users, or of the roles that are users: a trigger of both tables. A password, or what it
--             is checked by, is never noted.
-- Tables:     audit (insert), users (read)
-- Returns:
--   trigger  NULL, as one AFTER a change may
CREATE OR REPLACE FUNCTION telesto.audit_users()
RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    before constant jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) ELSE '{}' END;
    after constant jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) ELSE '{}' END;
    subject constant jsonb := before || after;
    changed jsonb;
BEGIN
    SELECT jsonb_object_agg(item.key, CASE WHEN item.key = 'verifier' THEN to_jsonb('changed'::text) ELSE item.value END)
    INTO changed
    FROM jsonb_each(CASE WHEN TG_OP = 'DELETE' THEN before ELSE after END) AS item
    WHERE TG_OP = 'DELETE' AND item.key <> 'verifier'
       OR TG_OP = 'INSERT' AND item.value NOT IN ('null', '[]', 'false')
       OR TG_OP = 'UPDATE' AND item.value IS DISTINCT FROM before -> item.key;
    PERFORM telesto.audit_sql(
        CASE TG_TABLE_NAME WHEN 'users' THEN 'user_' ELSE 'sql_user_' END
        || CASE TG_OP WHEN 'INSERT' THEN 'added' WHEN 'UPDATE' THEN 'changed' ELSE 'deleted' END,
        jsonb_strip_nulls(jsonb_build_object('user_id', subject -> 'user_id', 'user', subject -> 'name',
                                             'role_name', subject -> 'role_name'))
        -- A null in it says that a quota was lifted.
        || CASE WHEN changed IS NULL THEN '{}' ELSE jsonb_build_object('changed', changed) END);
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER users_audited AFTER INSERT OR UPDATE OR DELETE ON telesto.users
FOR EACH ROW EXECUTE FUNCTION telesto.audit_users();
CREATE OR REPLACE TRIGGER sql_users_audited AFTER INSERT OR UPDATE OR DELETE ON telesto.sql_users
FOR EACH ROW EXECUTE FUNCTION telesto.audit_users();
