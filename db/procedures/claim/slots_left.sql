-- Procedure:  slots_left
-- Purpose:    What is left of the slots of consumers after some were used.
-- Returns:
--   int[]                   the others, in order: of each consumer the later ones
CREATE OR REPLACE FUNCTION telesto.slots_left(
    slots int[],  -- the slots, in order
    used int[]    -- those that were used, in any order
)
RETURNS int[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT coalesce(array_agg(slot.request ORDER BY slot.i), '{}')
FROM (SELECT every.request, every.i, row_number() OVER (PARTITION BY every.request ORDER BY every.i) AS nth
      FROM unnest(slots) WITH ORDINALITY AS every (request, i)) AS slot
WHERE slot.nth > (SELECT count(*) FROM unnest(used) AS gone (request) WHERE gone.request = slot.request)
$$;
