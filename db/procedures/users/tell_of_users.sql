-- Procedure:  tell_of_users
-- Purpose:    Has middlewares read a user again that has changed: a trigger of the table. The payload is the user's id.
-- Returns:
--   trigger  NULL, as one AFTER a change may
CREATE OR REPLACE FUNCTION telesto.tell_of_users()
RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_notify('telesto_users', coalesce(NEW.user_id, OLD.user_id)::text);
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER users_changed AFTER INSERT OR UPDATE OR DELETE ON telesto.users
FOR EACH ROW EXECUTE FUNCTION telesto.tell_of_users();
