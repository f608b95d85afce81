-- Procedure:  queue_for_dead_letters
-- Purpose:    The dead letter queue that a SQL user names, as the column of the settings has it.
-- Returns:
--   jsonb                   its id; null for the empty name; NULL for NULL
-- Errors:     TL007 QUEUE_NOT_EXISTING
-- Tables:     queues (read)
CREATE OR REPLACE FUNCTION telesto.queue_for_dead_letters(
    name text  -- its name; empty for none
)
RETURNS jsonb
LANGUAGE plpgsql
AS $$
DECLARE
    found_id bigint;
BEGIN
    IF name = '' THEN
        RETURN 'null';
    ELSIF name IS NOT NULL THEN
        PERFORM telesto.require_right(telesto.sql_caller(), 'put', name);
    END IF;
    SELECT queue.queue_id INTO found_id FROM telesto.queues AS queue WHERE queue.name = queue_for_dead_letters.name;
    IF found_id IS NULL AND name IS NOT NULL THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %L for dead letters', name));
    END IF;
    RETURN to_jsonb(found_id);
END
$$;
