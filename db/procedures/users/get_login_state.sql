-- Procedure:  get_login_state
-- Purpose:    Whether there are users, and the secret that middlewares share.
-- Tables:     users (read), installation (read)
CREATE OR REPLACE FUNCTION telesto.get_login_state(
    OUT has_users boolean,  -- there is a user, also a disabled one
    OUT secret bytea        -- 32 bytes
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
BEGIN
    SELECT EXISTS (SELECT FROM telesto.users), installation.login_secret
    INTO get_login_state.has_users, get_login_state.secret
    FROM telesto.installation AS installation;
END
$$;
