-- Procedure:  find_dead_letter
-- Purpose:    Finds a message by its id among the dead letters, queue by queue.
-- Returns:
--   dead_letters            the letter; NULL without one
-- Tables:     dead_letters (read)
CREATE OR REPLACE FUNCTION telesto.find_dead_letter(
    wanted_id bigint,  -- the message
    in_queue bigint    -- only of this queue; 0 for all
)
RETURNS telesto.dead_letters
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    queue bigint := in_queue;
    result telesto.dead_letters;
BEGIN
    LOOP
        IF in_queue = 0 THEN
            SELECT letter.queue_id INTO queue
            FROM telesto.dead_letters AS letter
            WHERE letter.queue_id > queue
            ORDER BY letter.queue_id, letter.message_id
            LIMIT 1;
            EXIT WHEN NOT FOUND;
        END IF;
        SELECT letter.* INTO result
        FROM telesto.dead_letters AS letter
        WHERE letter.queue_id = queue AND letter.message_id = wanted_id;
        EXIT WHEN FOUND OR in_queue <> 0;
    END LOOP;
    RETURN result;
END
$$;
