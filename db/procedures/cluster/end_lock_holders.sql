-- Procedure:  end_lock_holders
-- Purpose:    Lists who else holds a lock that middlewares wait for, and ends the sessions that have held one for too
--             long. The caller, one middleware for all, looks again and again and says which these are. Superusers, and
--             members of the schema's owner or of telesto_middleware, are spared. Ending a session of another role needs
--             pg_signal_backend, or membership in that role, for the schema's owner.
-- Errors:     none raised
-- Locks:      the job's row
-- Tables:     jobs (insert, update), installation (read)
CREATE OR REPLACE FUNCTION telesto.end_lock_holders(
    middleware_id bigint,     -- who offers to do it
    hold_s double precision,  -- how long the job is kept for the caller, in seconds
    due_pids int[],           -- per session that is to be ended: its process
    due_transactions text[]   -- per session that is to be ended: the virtual transaction that holds the lock
)
RETURNS TABLE (
    pid int,           -- the server process of a session that holds a lock
    transaction text,  -- its virtual transaction; ends in /0 when the lock belongs to the session, outside of one
    role_name text,    -- the role that has logged in
    limit_ms int,      -- for how long one may be held, in milliseconds
    spared boolean,    -- whether the role may hold one for as long as it likes
    ended boolean      -- whether the session was ended now; false as well where that is not allowed
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    longest constant int := (SELECT installation.sql_lock_limit_ms FROM telesto.installation AS installation);
    holder record;
BEGIN
    IF longest = 0 OR NOT telesto.elect(end_lock_holders.middleware_id, 'lock_holders', hold_s) THEN
        RETURN;
    END IF;
    FOR holder IN
        SELECT held.pid, held.virtualtransaction AS transaction, login.rolname::text AS role_name,
               pg_has_role(login.oid, schema.nspowner, 'MEMBER') OR coalesce(middleware.yes, false) AS spared,
               EXISTS (SELECT FROM unnest(due_pids, due_transactions) AS due (pid, transaction)
                       WHERE due.pid = held.pid AND due.transaction = held.virtualtransaction) AS due
        -- Of clients, queues, topics and subscriptions, also shared, for those who wait want them alone; of the history's
        -- days only exclusive, as settings are changed under shared ones. The class is in the highest byte of the key.
        FROM (SELECT DISTINCT lock.pid, lock.virtualtransaction FROM pg_locks AS lock
              WHERE lock.locktype = 'advisory' AND lock.granted AND lock.objsubid = 1
                AND lock.database = (SELECT database.oid FROM pg_database AS database
                                     WHERE database.datname = current_database())
                AND (lock.classid::bigint >> 24 BETWEEN 1 AND 5
                     OR lock.classid::bigint >> 24 = 7 AND lock.mode = 'ExclusiveLock')) AS held
        JOIN pg_stat_activity AS activity ON activity.pid = held.pid
        JOIN pg_roles AS login ON login.oid = activity.usesysid
        JOIN pg_namespace AS schema ON schema.nspname = 'telesto'
        LEFT JOIN LATERAL (SELECT pg_has_role(login.oid, role.oid, 'MEMBER') AS yes FROM pg_roles AS role
                           WHERE role.rolname = 'telesto_middleware') AS middleware ON true
        WHERE activity.pid <> pg_backend_pid()
    LOOP
        -- The sessions of middlewares are not listed.
        CONTINUE WHEN holder.spared AND EXISTS (
            SELECT FROM pg_stat_activity AS activity
            WHERE activity.pid = holder.pid AND activity.application_name LIKE 'telesto %');
        pid := holder.pid;
        transaction := holder.transaction;
        role_name := holder.role_name;
        limit_ms := longest;
        spared := holder.spared;
        ended := false;
        IF holder.due AND NOT holder.spared THEN
            BEGIN
                ended := pg_terminate_backend(holder.pid);
            EXCEPTION WHEN insufficient_privilege THEN
                ended := false;
            END;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
