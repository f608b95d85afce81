-- Procedure:  turn_keys
-- Purpose:    Begins the next generation of message keys when the present one is old enough, and empties the
--             oldest for it. A generation lasts half of the longest window of any queue, so that a key outlives
--             its window in the two generations after its own. A table that somebody reads is left alone until
--             the next turn: the present generation lasts longer then.
-- Returns:
--   boolean                 whether a generation began
-- Locks:      the table that is emptied, exclusively, waited for a moment only
-- Tables:     key_generation (update), queues (read), message_keys_0, message_keys_1, message_keys_2 (truncate)
CREATE OR REPLACE FUNCTION telesto.turn_keys()
RETURNS boolean
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
#variable_conflict use_column
DECLARE
    next_generation bigint;
BEGIN
    SELECT present.generation + 1 INTO next_generation
    FROM telesto.key_generation AS present
    WHERE present.began_at < clock_timestamp() - (SELECT max(queue.dedup_window_ms) / 2 * interval '1 millisecond'
                                                  FROM telesto.queues AS queue)
    FOR UPDATE SKIP LOCKED;
    IF next_generation IS NULL THEN
        RETURN false;
    END IF;
    BEGIN
        IF next_generation % 3 = 0 AND EXISTS (SELECT FROM telesto.message_keys_0) THEN
            TRUNCATE telesto.message_keys_0;
        ELSIF next_generation % 3 = 1 AND EXISTS (SELECT FROM telesto.message_keys_1) THEN
            TRUNCATE telesto.message_keys_1;
        ELSIF next_generation % 3 = 2 AND EXISTS (SELECT FROM telesto.message_keys_2) THEN
            TRUNCATE telesto.message_keys_2;
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    UPDATE telesto.key_generation SET generation = next_generation, began_at = clock_timestamp();
    RETURN true;
END
$$;
