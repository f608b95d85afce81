-- Procedure:  judge_takes
-- Purpose:    Decides for each read of a batch whether it may look into its queue now. A read whose queue is
--             busy is left for later, and so is all of its client after it.
-- Returns:
--   smallint[]                 per request: NULL to go on, else the error as take_batch answers it
-- Locks:      none; the caller holds the clients' and the queues'
CREATE OR REPLACE FUNCTION telesto.judge_takes(
    client_ids bigint[],        -- per request: who reads
    request_errors smallint[],  -- per request: the fence's verdict; NULL when all passed
    queue_ids bigint[],         -- per request: the queue
    queues bigint[],            -- the distinct queues of requests that passed, sorted
    granted boolean[],          -- per queue: whether its take lock is held
    existing boolean[]          -- per queue: whether it exists
)
RETURNS smallint[]
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    verdicts smallint[] := coalesce(request_errors, array_fill(NULL::smallint, ARRAY[cardinality(queue_ids)]));
    held_up bigint[] := '{}';
    q int;
BEGIN
    FOR r IN 1..cardinality(queue_ids) LOOP
        CONTINUE WHEN verdicts[r] IS NOT NULL;
        q := telesto.sorted_index(queue_ids[r], queues);
        IF client_ids[r] = ANY (held_up) THEN
            verdicts[r] := :BUSY;
        ELSIF NOT granted[q] THEN
            verdicts[r] := :BUSY;
            held_up := held_up || client_ids[r];
        ELSIF NOT existing[q] THEN
            verdicts[r] := :QUEUE_NOT_EXISTING;
        END IF;
    END LOOP;
    RETURN verdicts;
END
$$;
