-- Procedure:  create_queue
-- Purpose:    Creates a queue from SQL, as a part of the caller's transaction.
-- Returns:
--   bigint                  the new queue
-- Errors:     TL004 QUEUE_NAME_NOT_UNIQUE, TL012 INVALID_PARAMETER
-- Locks:      none of Telesto's; the same name waits for this transaction, as any unique value
-- Tables:     queues (insert, update), put_states, take_states (insert)
CREATE OR REPLACE FUNCTION telesto.create_queue(
    name text,                         -- unique name, 1 to 255 characters
    max_messages bigint DEFAULT NULL,  -- a put beyond so many is refused; NULL for no bound
    settings jsonb DEFAULT '{}'        -- other settings, by the names that get_queue_settings tells
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    created bigint;
BEGIN
    PERFORM telesto.require_name(name);
    created := telesto.add_queue(name, NULL);
    IF created IS NULL THEN
        PERFORM telesto.raise_error(:QUEUE_NAME_NOT_UNIQUE, format('there is a queue of the name %L already', name));
    END IF;
    IF max_messages IS NOT NULL THEN
        settings := settings || jsonb_build_object('max_messages', max_messages);
    END IF;
    PERFORM telesto.update_queue(created, settings);
    RETURN created;
END
$$;
