-- Procedure:  create_queue
-- Purpose:    Creates a queue from SQL, as a part of the caller's transaction. Settings that are not given are as usual.
-- Returns:
--   bigint                  the new queue
-- Errors:     TL032 PERMISSION_DENIED,
--             TL004 QUEUE_NAME_NOT_UNIQUE, TL007 QUEUE_NOT_EXISTING for its dead letter queue, TL012 INVALID_PARAMETER
-- Locks:      that of check_dead_letter_queue; the same name waits for this transaction, as any unique value
-- Tables:     queues (insert, update), put_states, take_states, audit (insert)
CREATE OR REPLACE FUNCTION telesto.create_queue(
    name text,  -- unique name, 1 to 255 characters
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
RETURNS bigint
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
    created bigint;
BEGIN
    PERFORM telesto.require_right(caller, 'configure', name);
    PERFORM telesto.require_name(name);
    created := telesto.add_queue(name, NULL, caller.user_id);
    IF created IS NULL THEN
        PERFORM telesto.raise_error(:QUEUE_NAME_NOT_UNIQUE, format('there is a queue of the name %L already', name));
    END IF;
    PERFORM telesto.change_queue(caller, created, wanted);
    PERFORM telesto.audit_sql('queue_created', jsonb_build_object('queue_id', created, 'queue_name', name, 'settings', wanted));
    RETURN created;
END
$$;
