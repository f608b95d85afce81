-- Procedure:  add_queue
-- Purpose:    Creates a queue with its first states.
-- Returns:
--   bigint                  the new queue; NULL when the name is taken
-- Errors:     QUOTA_EXCEEDED, check_violation for a name out of range, and what set_queue_settings raises
-- Tables:     queues (insert, update), put_states, take_states (insert)
CREATE OR REPLACE FUNCTION telesto.add_queue(
    name text,       -- unique name, 1 to 255 characters
    settings jsonb,  -- what is not as usual, see set_queue_settings; NULL or {} for nothing
    owner bigint     -- the user that creates it; NULL for nobody
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    new_id bigint;
BEGIN
    PERFORM telesto.require_quota(owner, 'queues');
    INSERT INTO telesto.queues AS queue (queue_id, name, user_id)
    VALUES (nextval('telesto.queue_ids'), add_queue.name, owner)
    ON CONFLICT ON CONSTRAINT queues_name_unique DO NOTHING
    RETURNING queue.queue_id INTO new_id;
    IF new_id IS NOT NULL THEN
        PERFORM telesto.set_queue_settings(new_id, settings);
        -- Above every upper bound: no priority holds anything.
        INSERT INTO telesto.put_states (queue_id, version, total, directed_total, last_id, upper)
        VALUES (new_id, 1, 0, 0, 0, array_fill(0::bigint, ARRAY[10]));
        INSERT INTO telesto.take_states (queue_id, version, total, directed_total, lower)
        VALUES (new_id, 1, 0, 0, array_fill(1::bigint, ARRAY[10]));
    END IF;
    RETURN new_id;
END
$$;
