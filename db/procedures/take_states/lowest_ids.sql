-- Procedure:  lowest_ids
-- Purpose:    The lowest id for each priority.
-- Returns:
--   bigint[]                by priority 1 to 10; NULL where there is no message
CREATE OR REPLACE FUNCTION telesto.lowest_ids(
    priorities smallint[],  -- per message: its priority
    message_ids bigint[]    -- per message: its id
)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    lowest bigint[] := array_fill(NULL::bigint, ARRAY[10]);
BEGIN
    FOR i IN 1..coalesce(cardinality(message_ids), 0) LOOP
        lowest[priorities[i]] := least(lowest[priorities[i]], message_ids[i]);
    END LOOP;
    RETURN lowest;
END
$$;
