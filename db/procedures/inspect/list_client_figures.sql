-- Procedure:  list_client_figures
-- Purpose:    A page of the clients, by rising id, for people.
-- Tables:     clients, deliveries, subscriptions (read)
CREATE OR REPLACE FUNCTION telesto.list_client_figures(
    after_id bigint,                  -- the last client of the page before; 0 for the first page
    max_rows int,                     -- at most this many
    pattern text,                     -- only those whose name is LIKE this; NULL for all
    asking_user bigint DEFAULT NULL,  -- only those of this user, and those whose name matches one of `visible`; NULL
                                      -- for all
    visible text[] DEFAULT NULL       -- patterns
)
RETURNS TABLE (
    client_id bigint,        -- a client
    name text,               -- its name
    mode smallint,           -- what it may do
    temporary boolean,       -- whether it lasts as long as it is connected
    session_at timestamptz,  -- when it opened its session
    unconfirmed bigint,      -- messages that it was handed over and has not confirmed, 1,000 for more
    subscriptions bigint,    -- topics to which it subscribes, 1,000 for more
    process text,            -- the process that opened the session, as it calls itself; NULL when not known
    library text,            -- the name and version of its library; NULL when not known
    address text             -- the address of its connection; NULL when not known
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    likes constant text[] := telesto.like_patterns(visible);
BEGIN
    RETURN QUERY
    SELECT client.client_id, client.name, client.mode, client.temporary, client.session_at,
           (SELECT count(*) FROM (SELECT FROM telesto.deliveries AS delivery
                                  WHERE delivery.client_id = client.client_id
                                  LIMIT 1000) AS delivery),
           (SELECT count(*) FROM (SELECT FROM telesto.subscriptions AS subscription
                                  WHERE subscription.client_id = client.client_id
                                  LIMIT 1000) AS subscription),
           client.process, client.library, client.address
    FROM (SELECT client.* FROM telesto.clients AS client
          WHERE client.client_id > after_id AND (pattern IS NULL OR client.name LIKE pattern)
            AND (asking_user IS NULL OR client.user_id = asking_user OR client.name LIKE ANY (likes))
          ORDER BY client.client_id
          LIMIT max_rows) AS client
    ORDER BY client.client_id;
END
$$;
