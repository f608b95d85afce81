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
-- Tables:     queues (update)
CREATE OR REPLACE FUNCTION telesto.set_queue_settings(queue_id bigint, settings jsonb)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    UPDATE telesto.queues AS queue
    SET max_messages = (jsonb_populate_record(queue, settings)).max_messages,
        dedup_window_ms = (jsonb_populate_record(queue, settings)).dedup_window_ms,
        lease_ms = (jsonb_populate_record(queue, settings)).lease_ms,
        max_attempts = (jsonb_populate_record(queue, settings)).max_attempts,
        backoff_ms = (jsonb_populate_record(queue, settings)).backoff_ms,
        backoff_max_ms = (jsonb_populate_record(queue, settings)).backoff_max_ms,
        expires_ms = (jsonb_populate_record(queue, settings)).expires_ms,
        bury_expired = (jsonb_populate_record(queue, settings)).bury_expired
    WHERE queue.queue_id = set_queue_settings.queue_id;
    RETURN FOUND;
END
$$;
