-- Procedure:  declare_queue
-- Purpose:    Finds the queue of a name from SQL, or creates it, as a part of the caller's transaction. Settings that are
--             given must be its own, or are changed; those that are not given may be anything.
-- Returns:
--   bigint                  the queue
-- Errors:     TL032 PERMISSION_DENIED,
--             TL007 QUEUE_NOT_EXISTING for its dead letter queue, TL012 INVALID_PARAMETER, also for what differs
-- Locks:      those of create_queue or of update_queue, where it does as these
-- Tables:     queues (read, insert, update), put_states, take_states, audit (insert)
CREATE OR REPLACE FUNCTION telesto.declare_queue(
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
    history_days bigint DEFAULT NULL,     -- for how many days it keeps that; days, 1 to 366
    -- queue settings: end
    update_settings boolean DEFAULT false  -- change the settings that differ, instead of raising an error
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
    seen constant text[] := telesto.seen_patterns(caller);
    found_id bigint;
    there jsonb;
    differing text;
BEGIN
    PERFORM telesto.require_name(name);
    LOOP
        SELECT queue.queue_id INTO found_id FROM telesto.queues AS queue WHERE queue.name = declare_queue.name;
        EXIT WHEN found_id IS NOT NULL AND (seen IS NULL OR telesto.name_matches(seen, name));
        PERFORM telesto.require_right(caller, 'configure', name);
        found_id := telesto.add_queue(name, NULL, caller.user_id);
        IF found_id IS NOT NULL THEN
            PERFORM telesto.change_queue(caller, found_id, wanted);
            PERFORM telesto.audit_sql('queue_created', jsonb_build_object('queue_id', found_id, 'queue_name', name,
                                                                          'settings', wanted));
            RETURN found_id;
        END IF;
        -- Another transaction has created it since; the next statement sees it.
    END LOOP;
    there := telesto.settings_of(found_id);
    SELECT string_agg(format('%s %s, not %s', regexp_replace(want.key, '_ms$', ''),
                             telesto.shown_setting(want.key, there -> want.key),
                             telesto.shown_setting(want.key, want.value)), ', ' ORDER BY want.key)
    INTO differing
    FROM jsonb_each(wanted) AS want
    WHERE there -> want.key IS DISTINCT FROM want.value;
    IF differing IS NULL THEN
        RETURN found_id;
    ELSIF update_settings THEN
        PERFORM telesto.require_right(caller, 'configure', name);
        PERFORM telesto.change_queue(caller, found_id, wanted);
        PERFORM telesto.audit_sql('queue_changed', jsonb_build_object('queue_id', found_id, 'settings', wanted));
        RETURN found_id;
    END IF;
    PERFORM telesto.raise_error(:INVALID_PARAMETER, format('queue %L has %s; update_settings => true changes it', name, differing));
END
$$;
