-- Procedure:  refused_takes
-- Purpose:    The rows of take_batch for the reads that get an error.
CREATE OR REPLACE FUNCTION telesto.refused_takes(
    verdicts smallint[],  -- per request: NULL, or its error
    related_ids bigint[]  -- per request: what the error is about
)
RETURNS SETOF telesto.taken_message
LANGUAGE plpgsql
AS $$
DECLARE
    refusal telesto.taken_message;
BEGIN
    FOR r IN 1..cardinality(verdicts) LOOP
        IF verdicts[r] IS NOT NULL THEN
            refusal.request := r;
            refusal.error := verdicts[r];
            refusal.related_id := related_ids[r];
            RETURN NEXT refusal;
        END IF;
    END LOOP;
END
$$;
