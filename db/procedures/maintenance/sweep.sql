-- Procedure:  sweep
-- Purpose:    A bounded turn of a job that one middleware does for all.
-- Errors:     invalid_parameter_value (22023) for an unknown job
-- Locks:      the job's row, and those of the job
-- Tables:     jobs (insert, update), and those of the job
CREATE OR REPLACE FUNCTION telesto.sweep(
    middleware_id bigint,                         -- who offers to do it
    job text,                                     -- 'unconfirmed' (hand-overs kept too long go to the dead letters),
                                                  -- 'deleted_queues' (their messages are removed), 'message_keys' (the
                                                  -- next generation of keys), 'topics' (messages that all have
                                                  -- confirmed, and idle topics, are removed), 'subscriptions' (they are
                                                  -- compared with their limits), 'leases' (what consumers kept too
                                                  -- long, or left behind, goes back to the queues), 'delayed' (messages
                                                  -- whose time has come can be read), 'expired' and 'expired_keyed'
                                                  -- (messages whose time is over are removed), 'dead_letters' (they go
                                                  -- on to dead letter queues), 'due_partitions' (partitions whose time
                                                  -- has come go on), 'partitions' (those without messages are
                                                  -- forgotten), 'temporary_clients' (those whose connection was not
                                                  -- seen for too long are deleted), 'audit' (what its table has kept
                                                  -- long enough is removed) or 'history' (its partitions are made and
                                                  -- dropped)
    max_rows int DEFAULT 1000,                    -- at most this many messages in this turn
    hold_s double precision DEFAULT 30,           -- how long the job is kept for the caller, in seconds
    retention_s double precision DEFAULT 604800,  -- how long a hand-over may be unconfirmed, in seconds; 7 days by
                                                  -- default
    latest timestamptz DEFAULT NULL,              -- the clock of this server was not beyond this, unless it was set
                                                  -- since the caller looked: what comes due beyond it ('leases',
                                                  -- 'delayed', 'due_partitions') is left; NULL when not known
    topic_idle_s double precision DEFAULT 86400,  -- for how long nobody subscribes or puts to a topic that goes, in
                                                  -- seconds; a day by default
    unseen_s double precision DEFAULT 300,        -- for how long a temporary client is not seen that is deleted, in
                                                  -- seconds; 5 minutes by default
    audit_days double precision DEFAULT 90,       -- for how many days the table of the audit log is kept
    OUT elected boolean,                          -- whether the job is the caller's
    OUT done bigint,                              -- messages moved or removed, partitions made or dropped
    OUT more boolean,                             -- whether there is more to do at once
    OUT queue_ids bigint[],                       -- per message that can be read now: its queue
    OUT receiver_ids bigint[]                     -- per message that can be read now: for whom; 0 for anyone
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM telesto.require_read_committed();
    IF job IS NULL OR job NOT IN ('unconfirmed', 'deleted_queues', 'message_keys', 'topics', 'subscriptions',
                                  'leases', 'delayed', 'expired', 'expired_keyed', 'due_partitions', 'partitions',
                                  'dead_letters', 'temporary_clients', 'audit', 'history') THEN
        RAISE EXCEPTION 'unknown job %', coalesce(job, 'NULL') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    done := 0;
    more := false;
    elected := telesto.elect(middleware_id, job, hold_s);
    IF NOT elected THEN
        RETURN;
    ELSIF job = 'unconfirmed' THEN
        SELECT swept.done, swept.more INTO done, more
        FROM telesto.sweep_unconfirmed(max_rows, retention_s) AS swept;
    ELSIF job = 'message_keys' THEN
        PERFORM telesto.turn_keys();
    ELSIF job = 'leases' THEN
        SELECT swept.done, swept.more, swept.queue_ids, swept.receiver_ids INTO done, more, queue_ids, receiver_ids
        FROM telesto.sweep_leases(max_rows, latest) AS swept;
    ELSIF job = 'delayed' THEN
        SELECT swept.done, swept.more, swept.queue_ids, swept.receiver_ids INTO done, more, queue_ids, receiver_ids
        FROM telesto.sweep_delayed(max_rows, latest) AS swept;
    ELSIF job = 'due_partitions' THEN
        SELECT swept.done, swept.more, swept.queue_ids, swept.receiver_ids INTO done, more, queue_ids, receiver_ids
        FROM telesto.sweep_due_partitions(max_rows, latest) AS swept;
    ELSIF job = 'partitions' THEN
        SELECT swept.done, swept.more, swept.queue_ids, swept.receiver_ids INTO done, more, queue_ids, receiver_ids
        FROM telesto.sweep_partitions(max_rows) AS swept;
    ELSIF job = 'dead_letters' THEN
        SELECT swept.done, swept.more, swept.queue_ids, swept.receiver_ids INTO done, more, queue_ids, receiver_ids
        FROM telesto.sweep_dead_letters(max_rows) AS swept;
    ELSIF job = 'temporary_clients' THEN
        SELECT swept.done, swept.more, swept.queue_ids, swept.receiver_ids INTO done, more, queue_ids, receiver_ids
        FROM telesto.sweep_temporary_clients(unseen_s, latest) AS swept;
    ELSIF job = 'audit' THEN
        SELECT swept.done, swept.more INTO done, more FROM telesto.sweep_audit(max_rows, audit_days) AS swept;
    ELSIF job = 'expired_keyed' THEN
        SELECT swept.done, swept.more INTO done, more FROM telesto.expire_keyed(max_rows) AS swept;
    ELSIF job = 'expired' THEN
        SELECT swept.done, swept.more INTO done, more FROM telesto.sweep_expired(max_rows) AS swept;
    ELSIF job = 'history' THEN
        SELECT swept.done, swept.more INTO done, more
        FROM telesto.sweep_history(clock_timestamp(), max_rows) AS swept;
    ELSIF job = 'deleted_queues' THEN
        SELECT swept.done, swept.more INTO done, more
        FROM telesto.sweep_deleted_queues(max_rows) AS swept;
    ELSIF job = 'topics' THEN
        SELECT swept.done, swept.more INTO done, more FROM telesto.sweep_topics(max_rows, topic_idle_s) AS swept;
    ELSE
        SELECT swept.done, swept.more INTO done, more FROM telesto.sweep_subscriptions(max_rows) AS swept;
    END IF;
END
$$;
