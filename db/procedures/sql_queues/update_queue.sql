-- Procedure:  update_queue
-- Purpose:    Changes settings of a queue from SQL, as a part of the caller's transaction; those that are not given stay.
-- Errors:     TL032 PERMISSION_DENIED,
--             TL007 QUEUE_NOT_EXISTING, TL012 INVALID_PARAMETER
-- Locks:      the queue's row, to the end of the caller's transaction: another change of its settings waits. With a
--             dead letter queue that of check_dead_letter_queue: another change of any waits
-- Tables:     queues (read, update), audit (insert)
CREATE OR REPLACE FUNCTION telesto.update_queue(
    queue_id bigint,  -- the queue
    -- queue settings: begin, generated from protocol/spec/telesto.toml
    max_messages bigint DEFAULT NULL,     -- refuse messages when the queue holds this many; 1 or more; 0: no limit
    dedup_window interval DEFAULT NULL,   -- how long the queue remembers a dedup key; seconds, 1 to 604,800
    lease interval DEFAULT NULL,          -- how long a consumer may work on a message; seconds, 0.1 to 86,400
    max_attempts bigint DEFAULT NULL,     -- a message that has failed this often becomes a dead letter; 1 to 1,000,000
    backoff interval DEFAULT NULL,        -- how long a message waits after its first failed attempt; each further
                                          -- failure doubles that; seconds, 0 to 86,400
    backoff_max interval DEFAULT NULL,    -- the longest wait after a failed attempt; seconds, 0 to 86,400
    expires interval DEFAULT NULL,        -- a message that is put from now on expires after this time; seconds, 0.001
                                          -- to 315,360,000; 0: never
    bury_expired boolean DEFAULT NULL,    -- whether expired messages become dead letters
    dead_letter_queue text DEFAULT NULL,  -- the queue that receives the dead letters; '': dead letters stay in their
                                          -- queue
    late_after interval DEFAULT NULL,     -- a consumer's answer is late after this time; seconds, 0.001 to 86,400; 0: a
                                          -- third of lease
    late_limit bigint DEFAULT NULL,       -- a consumer loses its partitions after this many late answers within the
                                          -- window; 0: never; 0 to 1,000
    late_window interval DEFAULT NULL,    -- the window in which late answers count, and how long other consumers then
                                          -- keep the partitions; seconds, 0.1 to 86,400
    fail_limit bigint DEFAULT NULL,       -- a consumer has to join again after this many failures in a row; 0: never; 0
                                          -- to 1,000
    history text DEFAULT NULL,            -- what the queue keeps of finished messages: nothing, all but the bodies, or
                                          -- all, by its name in small letters
    history_days bigint DEFAULT NULL      -- for how many days it keeps that; days, 1 to 366
    -- queue settings: end
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    -- queue settings: begin, generated from protocol/spec/telesto.toml
    wanted constant jsonb := telesto.setting_columns(max_messages, dedup_window, lease, max_attempts, backoff,
                                                     backoff_max, expires, bury_expired, dead_letter_queue,
                                                     late_after, late_limit, late_window, fail_limit, history,
                                                     history_days);
    -- queue settings: end
    caller constant telesto.users := telesto.sql_caller();
BEGIN
    PERFORM telesto.require_right_on(caller, 'configure', queue_id);
    IF wanted = '{}' THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'no setting to change is given');
    END IF;
    PERFORM telesto.change_queue(caller, queue_id, wanted);
    PERFORM telesto.audit_sql('queue_changed', jsonb_build_object('queue_id', queue_id, 'settings', wanted));
END
$$;
