-- Procedure:  set_queue_settings
-- Purpose:    Changes settings of a queue. A setting is a column of queues and a line here.
-- Parameters:
--   queue_id bigint         the queue
--   settings jsonb          what is to change, by the name of the column; others stay. NULL changes nothing
-- Returns:
--   boolean                 whether the queue exists
-- Errors:     check_violation (23514), not_null_violation (23502) or data_exception (22xxx) for a value that
--             the setting cannot have
-- Locks:      the queue's row; calls that put and take only read it and do not wait
-- Tables:     queues (update), and those of extend_history
CREATE OR REPLACE FUNCTION telesto.set_queue_settings(queue_id bigint, settings jsonb)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    days_at_once constant int := 8;
    today constant date := clock_timestamp() AT TIME ZONE 'UTC';
    keeps_for_other_days constant boolean := coalesce(settings ? 'history_days', false);
BEGIN
    -- What is put from the commit on may end before the next turn of the job that makes partitions. What ended before
    -- did so under the old settings.
    IF keeps_for_other_days THEN
        PERFORM telesto.extend_history(today, days_at_once, true);
    END IF;
    UPDATE telesto.queues AS queue
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
    WHERE queue.queue_id = set_queue_settings.queue_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF keeps_for_other_days THEN
        PERFORM telesto.extend_history(today, days_at_once, false);
    END IF;
    RETURN true;
END
$$;
