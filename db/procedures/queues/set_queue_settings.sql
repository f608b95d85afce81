-- Procedure:  set_queue_settings
-- Purpose:    Changes settings of a queue. A setting is a column of queues; `make generate` lists them here.
-- Returns:
--   boolean                 whether the queue exists
-- Errors:     check_violation, not_null_violation or data_exception for a value that
--             the setting cannot have
-- Locks:      the queue's row; calls that put and take only read it and do not wait. History days (shared), which
--             only the job that opens partitions tries to take
-- Tables:     queues (update)
CREATE OR REPLACE FUNCTION telesto.set_queue_settings(
    queue_id bigint,  -- the queue
    settings jsonb    -- what is to change, by the name of the column; others stay. NULL changes nothing
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    -- What is put from the commit on is kept for other days, and may end before those have partitions.
    IF settings ? 'history_days' THEN
        PERFORM pg_advisory_xact_lock_shared(telesto.history_days_lock_key());
    END IF;
    UPDATE telesto.queues AS queue
    -- queue settings: begin, generated from protocol/spec/telesto.toml
    SET max_messages = (jsonb_populate_record(queue, settings)).max_messages,
        dedup_window_ms = (jsonb_populate_record(queue, settings)).dedup_window_ms,
        lease_ms = (jsonb_populate_record(queue, settings)).lease_ms,
        max_attempts = (jsonb_populate_record(queue, settings)).max_attempts,
        backoff_ms = (jsonb_populate_record(queue, settings)).backoff_ms,
        backoff_max_ms = (jsonb_populate_record(queue, settings)).backoff_max_ms,
        expires_ms = (jsonb_populate_record(queue, settings)).expires_ms,
        bury_expired = (jsonb_populate_record(queue, settings)).bury_expired,
        dead_letter_queue = (jsonb_populate_record(queue, settings)).dead_letter_queue,
        late_after_ms = (jsonb_populate_record(queue, settings)).late_after_ms,
        late_limit = (jsonb_populate_record(queue, settings)).late_limit,
        late_window_ms = (jsonb_populate_record(queue, settings)).late_window_ms,
        fail_limit = (jsonb_populate_record(queue, settings)).fail_limit,
        history = (jsonb_populate_record(queue, settings)).history,
        history_days = (jsonb_populate_record(queue, settings)).history_days
    -- queue settings: end
    WHERE queue.queue_id = set_queue_settings.queue_id;
    RETURN FOUND;
END
$$;
