-- Procedure:  change_queue
-- Purpose:    Changes settings of a queue for a SQL user, as a part of the caller's transaction.
-- Errors:     TL007 QUEUE_NOT_EXISTING, TL012 INVALID_PARAMETER
-- Locks:      the queue's row, to the end of the caller's transaction: another change of its settings waits. With a
--             dead letter queue that of check_dead_letter_queue: another change of any waits
-- Tables:     queues (read, update)
CREATE OR REPLACE FUNCTION telesto.change_queue(
    caller telesto.users,  -- see sql_caller
    queue_id bigint,       -- the queue
    settings jsonb         -- what is to change, see setting_columns
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    found boolean;
    refused smallint;
    name text;
BEGIN
    IF caller.user_id IS NOT NULL AND settings ->> 'dead_letter_queue' IS NOT NULL THEN
        -- Else it could read by the other queue what it may not read here.
        name := (SELECT queue.name FROM telesto.queues AS queue WHERE queue.queue_id = change_queue.queue_id);
        IF NOT telesto.name_matches(caller.get || caller.admin, name) THEN
            PERFORM telesto.raise_error(:PERMISSION_DENIED, format(
                'user %L has neither the right get nor admin on %L, whose dead letters are to go elsewhere', caller.name, name));
        END IF;
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
