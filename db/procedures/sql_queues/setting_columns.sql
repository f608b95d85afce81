-- Procedure:  setting_columns
-- Purpose:    The settings that a SQL user gives, as set_queue_settings takes them. `make generate` lists them here.
-- Returns:
--   jsonb                   what is given, by the names of the columns; null for what a queue is to be without
-- Errors:     TL007 QUEUE_NOT_EXISTING, TL012 INVALID_PARAMETER
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.setting_columns(
    -- queue settings: begin, generated from protocol/spec/telesto.toml
    max_messages bigint,     -- refuse messages when the queue holds this many; 1 or more; 0: no limit
    dedup_window interval,   -- how long the queue remembers a dedup key; seconds, 1 to 604,800
    lease interval,          -- how long a consumer may work on a message; seconds, 0.1 to 86,400
    max_attempts bigint,     -- a message that has failed this often becomes a dead letter; 1 to 1,000,000
    backoff interval,        -- how long a message waits after its first failed attempt; each further failure doubles
                             -- that; seconds, 0 to 86,400
    backoff_max interval,    -- the longest wait after a failed attempt; seconds, 0 to 86,400
    expires interval,        -- a message that is put from now on expires after this time; seconds, 0.001 to
                             -- 315,360,000; 0: never
    bury_expired boolean,    -- whether expired messages become dead letters
    dead_letter_queue text,  -- the queue that receives the dead letters; '': dead letters stay in their queue
    late_after interval,     -- a consumer's answer is late after this time; seconds, 0.001 to 86,400; 0: a third of
                             -- lease
    late_limit bigint,       -- a consumer loses its partitions after this many late answers within the window; 0:
                             -- never; 0 to 1,000
    late_window interval,    -- the window in which late answers count, and how long other consumers then keep the
                             -- partitions; seconds, 0.1 to 86,400
    fail_limit bigint,       -- a consumer has to join again after this many failures in a row; 0: never; 0 to 1,000
    history text,            -- what the queue keeps of finished messages: nothing, all but the bodies, or all, by its
                             -- name in small letters
    history_days bigint      -- for how many days it keeps that; days, 1 to 366
    -- queue settings: end
)
RETURNS jsonb
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
BEGIN
    RETURN (
    SELECT coalesce(jsonb_object_agg(given.name, CASE WHEN given.or_none AND given.value = '0' THEN 'null'
                                                      ELSE given.value END), '{}')
    FROM (VALUES
        -- queue settings: begin, generated from protocol/spec/telesto.toml
        ('max_messages', to_jsonb(telesto.in_range('max_messages', max_messages, 0, 9223372036854775807)), true),
        ('dedup_window_ms', to_jsonb(telesto.in_milliseconds('dedup_window', dedup_window, 1000, 604800000)), false),
        ('lease_ms', to_jsonb(telesto.in_milliseconds('lease', lease, 100, 86400000)), false),
        ('max_attempts', to_jsonb(telesto.in_range('max_attempts', max_attempts, 1, 1000000)), false),
        ('backoff_ms', to_jsonb(telesto.in_milliseconds('backoff', backoff, 0, 86400000)), false),
        ('backoff_max_ms', to_jsonb(telesto.in_milliseconds('backoff_max', backoff_max, 0, 86400000)), false),
        ('expires_ms', to_jsonb(telesto.in_milliseconds('expires', expires, 0, 315360000000)), true),
        ('bury_expired', to_jsonb(bury_expired), false),
        ('dead_letter_queue', telesto.queue_for_dead_letters(dead_letter_queue), true),
        ('late_after_ms', to_jsonb(telesto.in_milliseconds('late_after', late_after, 0, 86400000)), true),
        ('late_limit', to_jsonb(telesto.in_range('late_limit', late_limit, 0, 1000)), false),
        ('late_window_ms', to_jsonb(telesto.in_milliseconds('late_window', late_window, 100, 86400000)), false),
        ('fail_limit', to_jsonb(telesto.in_range('fail_limit', fail_limit, 0, 1000)), false),
        ('history', to_jsonb(history), false),
        ('history_days', to_jsonb(telesto.in_range('history_days', history_days, 1, 366)), false)
        -- queue settings: end
    ) AS given (name, value, or_none)
    WHERE given.value IS NOT NULL);
END
$$;
