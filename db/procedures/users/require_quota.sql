-- Procedure:  require_quota
-- Purpose:    Refuses one more client, queue or topic of a user that has as many as it may have. Others of the same user wait
--             until the transaction ends, so that they do not exceed the quota together; without a quota nobody waits.
-- Errors:     TL076 QUOTA_EXCEEDED
-- Locks:      the user's row
-- Tables:     users, clients, queues, topics (read)
CREATE OR REPLACE FUNCTION telesto.require_quota(
    of_user bigint,  -- the user; NULL for nobody
    what text        -- clients, queues or topics
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    user_name text;
    quota bigint;
    used bigint;
BEGIN
    SELECT owner.name, CASE what WHEN 'clients' THEN owner.max_clients WHEN 'queues' THEN owner.max_queues
                                 ELSE owner.max_topics END INTO user_name, quota
    FROM telesto.users AS owner
    WHERE owner.user_id = of_user;
    IF quota IS NULL THEN
        RETURN;
    END IF;
    PERFORM FROM telesto.users AS owner WHERE owner.user_id = of_user FOR NO KEY UPDATE;
    IF what = 'clients' THEN
        SELECT count(*) INTO used FROM telesto.clients AS client WHERE client.user_id = of_user;
    ELSIF what = 'topics' THEN
        SELECT count(*) INTO used FROM telesto.topics AS topic WHERE topic.user_id = of_user;
    ELSE
        SELECT count(*) INTO used FROM telesto.queues AS queue WHERE queue.user_id = of_user;
    END IF;
    IF used >= quota THEN
        PERFORM telesto.raise_error(:QUOTA_EXCEEDED, format(
            'user %L has %s %s and may have no more than %s; it must delete some, or get a larger quota: telesto user quota %L --%s N',
            user_name, used, what, quota, user_name, what));
    END IF;
END
$$;
