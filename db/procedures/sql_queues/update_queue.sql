-- Procedure:  update_queue
-- Purpose:    Changes settings of a queue from SQL, as a part of the caller's transaction.
-- Errors:     TL007 QUEUE_NOT_EXISTING, TL012 INVALID_PARAMETER
-- Locks:      the queue's row, to the end of the caller's transaction: another change of its settings waits. With a
--             dead letter queue that of check_dead_letter_queue: another change of any waits
-- Tables:     queues (read, update)
CREATE OR REPLACE FUNCTION telesto.update_queue(
    queue_id bigint,  -- the queue
    settings jsonb    -- what is to change, by the names that get_queue_settings tells; others stay
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    known jsonb := (telesto.get_queue_settings(queue_id)).settings;
    unknown text;
    found boolean;
    refused smallint;
BEGIN
    IF jsonb_typeof(settings) IS DISTINCT FROM 'object' THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, 'settings must be a JSON object, such as {"max_messages": 1000}');
    END IF;
    SELECT name INTO unknown FROM jsonb_object_keys(settings) AS name WHERE NOT known ? name LIMIT 1;
    IF unknown IS NOT NULL THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('%L is no setting of a queue', unknown));
    END IF;
    BEGIN
        refused := telesto.check_dead_letter_queue(queue_id, settings);
        found := refused IS NULL AND telesto.set_queue_settings(queue_id, settings);
    EXCEPTION
        WHEN check_violation OR not_null_violation OR data_exception THEN
            PERFORM telesto.raise_error(:INVALID_PARAMETER, format('settings %s: %s', settings, SQLERRM));
    END;
    IF refused = :QUEUE_NOT_EXISTING THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %s for dead letters', settings ->> 'dead_letter_queue'));
    ELSIF refused IS NOT NULL THEN
        PERFORM telesto.raise_error(:INVALID_PARAMETER, format('dead letters of queue %s would come back to it from queue %s', queue_id,
                                               settings ->> 'dead_letter_queue'));
    ELSIF NOT found THEN
        PERFORM telesto.raise_error(:QUEUE_NOT_EXISTING, format('there is no queue %s', coalesce(queue_id::text, 'NULL')));
    END IF;
END
$$;
