-- Procedure:  note_clock_step
-- Purpose:    After the clock of this server was set: moves by as much what was to happen some time after something
--             else, so that it happens then. Leases begin anew, with their whole time, and middlewares have as
--             long as ever to give a sign of life. Each step is noted once, by the first to notice it. What belongs to a
--             moment (expiries), or to days (retention, windows of keys, the history), follows the clock.
-- Returns:
--   boolean                 false: another one has noted a step since
-- Locks:      the rows of the clock and of jobs (wait), queues' take locks (wait), leases (rows that others hold are passed
--             over: they are touched or end), consumers' and middlewares' rows (wait)
-- Tables:     clock, jobs, delayed_messages, keyed_messages, partitions, leases, consumers, middlewares (update),
--             queues (read)
CREATE OR REPLACE FUNCTION telesto.note_clock_step(
    step_ms bigint,     -- how far the clock was set, in milliseconds; negative for back
    seen_steps bigint,  -- how many steps had been noted before it
    last_id bigint      -- messages up to this id were put before it
)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    step constant interval := make_interval(secs => step_ms / 1000.0);
    timed constant text[] := ARRAY['leases', 'delayed', 'due_partitions', 'expired', 'expired_keyed'];
    queues bigint[];
BEGIN
    PERFORM telesto.require_read_committed();
    UPDATE telesto.clock AS clock
    SET steps = clock.steps + 1, last_step = step, noted_at = clock_timestamp()
    WHERE clock.steps = seen_steps;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Before the queues' locks: a job, too, locks its row first.
    PERFORM FROM telesto.jobs AS job WHERE job.job = ANY (timed) ORDER BY job.job FOR UPDATE;
    queues := ARRAY(SELECT delayed.queue_id FROM telesto.delayed_messages AS delayed
                    UNION
                    SELECT keyed.queue_id FROM telesto.keyed_messages AS keyed WHERE keyed.due_at IS NOT NULL
                    ORDER BY 1);
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
    FROM (SELECT unnest(queues) AS queue_id) AS queue;
    UPDATE telesto.delayed_messages AS message
    SET due_at = least(message.due_at + step, message.expires_at), kept_until = message.kept_until + step
    WHERE message.queue_id = ANY (queues) AND message.message_id <= last_id;
    UPDATE telesto.keyed_messages AS message
    SET due_at = least(message.due_at + step, message.expires_at)
    WHERE message.queue_id = ANY (queues) AND message.message_id <= last_id AND message.due_at IS NOT NULL;
    UPDATE telesto.partitions AS record
    SET place = record.place + step_ms * 1000
    WHERE record.line = 4 AND record.queue_id = ANY (queues) AND record.next_id <= last_id;

    UPDATE telesto.leases AS lease
    SET deadline = clock_timestamp()
                   + make_interval(secs => coalesce((SELECT queue.lease_ms FROM telesto.queues AS queue
                                                     WHERE queue.queue_id = lease.queue_id
                                                     LIMIT 1), 30000) / 1000.0)
    WHERE lease.ctid = ANY (ARRAY(SELECT held.ctid FROM telesto.leases AS held FOR UPDATE SKIP LOCKED));
    UPDATE telesto.consumers AS consumer
    SET slow_until = consumer.slow_until + step
    WHERE consumer.slow_until IS NOT NULL;
    UPDATE telesto.jobs AS job SET position = 0 WHERE job.job = ANY (timed);
    UPDATE telesto.middlewares AS middleware SET heartbeat_at = clock_timestamp();
    RETURN true;
END
$$;
