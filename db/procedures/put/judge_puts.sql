-- Procedure:  judge_puts
-- Purpose:    The slow path of put_batch: decides element by element when something stands in the way of at
--             least one, and draws the ids of those that go through.
-- Locks:      none; the caller holds the clients' and the queues'
-- Tables:     operations, queues, message_keys_0, message_keys_1, message_keys_2 (read)
CREATE OR REPLACE FUNCTION telesto.judge_puts(
    client_ids bigint[],        -- per request: who puts
    sessions bigint[],          -- per request: the session
    numbers bigint[],           -- per request: its number
    request_errors smallint[],  -- per request: the fence's verdict; NULL when all passed
    element_requests int[],     -- per element: its request
    queue_ids bigint[],         -- per element: its queue; negative for one that must not take it
    queues bigint[],            -- the distinct queues of requests that passed, sorted
    granted boolean[],          -- per queue: whether its put lock is held
    existing boolean[],         -- per queue: whether it exists
    free_counts bigint[],       -- per queue: how many messages it may still take; NULL when unbounded
    dedup_keys text[],          -- per element: its key; NULL for an element, or for all, without
    OUT errors smallint[],      -- per element, as put_batch answers
    OUT message_ids bigint[]    -- per element; 0 where refused, negative for the message put first under its key
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    verdicts smallint[] := coalesce(request_errors, array_fill(NULL::smallint, ARRAY[cardinality(numbers)]));
    repeated constant boolean[] := telesto.repeated_numbers(client_ids, sessions, numbers);
    held_up bigint[] := '{}';
    known_ids bigint[];
    firsts int[];
    firsts_put bigint[];
    q int;
BEGIN
    -- A request that needs a busy queue is left for later as a whole, and so is all of its client after it.
    FOR e IN 1..cardinality(element_requests) LOOP
        IF verdicts[element_requests[e]] IS NULL AND queue_ids[e] > 0
                AND NOT granted[telesto.sorted_index(queue_ids[e], queues)] THEN
            verdicts[element_requests[e]] := :BUSY;
        END IF;
    END LOOP;
    FOR r IN 1..cardinality(numbers) LOOP
        IF client_ids[r] = ANY (held_up) THEN
            verdicts[r] := coalesce(verdicts[r], :BUSY);
        ELSIF verdicts[r] = :BUSY THEN
            held_up := held_up || client_ids[r];
        ELSIF verdicts[r] IS NULL AND repeated[r] THEN
            verdicts[r] := :NUMBER_REPEATED;
        END IF;
    END LOOP;

    IF dedup_keys IS NOT NULL THEN
        SELECT known.known_ids, known.firsts INTO known_ids, firsts
        FROM telesto.known_messages(ARRAY(SELECT abs(element.queue_id)
                                          FROM unnest(queue_ids) WITH ORDINALITY AS element (queue_id, i)
                                          ORDER BY element.i), dedup_keys) AS known;
        firsts_put := array_fill(NULL::bigint, ARRAY[cardinality(element_requests)]);
    END IF;

    errors := array_fill(NULL::smallint, ARRAY[cardinality(element_requests)]);
    message_ids := array_fill(0::bigint, ARRAY[cardinality(element_requests)]);
    FOR e IN 1..cardinality(element_requests) LOOP
        errors[e] := verdicts[element_requests[e]];
        CONTINUE WHEN errors[e] IS NOT NULL;
        q := telesto.sorted_index(queue_ids[e], queues);
        IF queue_ids[e] > 0 AND NOT existing[q] THEN
            errors[e] := :QUEUE_NOT_EXISTING;
        ELSIF known_ids[e] IS NOT NULL THEN
            -- Also where the queue must not take it: a repetition puts nothing.
            message_ids[e] := -known_ids[e];
        ELSIF firsts_put[firsts[e]] IS NOT NULL THEN
            message_ids[e] := -firsts_put[firsts[e]];
        ELSIF queue_ids[e] < 0 OR free_counts[q] <= 0 THEN
            errors[e] := :QUEUE_FULL;
        ELSE
            free_counts[q] := free_counts[q] - 1;
            message_ids[e] := nextval('telesto.message_ids');
            IF firsts[e] IS NOT NULL THEN
                firsts_put[firsts[e]] := message_ids[e];
            END IF;
        END IF;
    END LOOP;
    IF NOT EXISTS (SELECT FROM unnest(errors) AS element (error) WHERE element.error IS NOT NULL) THEN
        errors := NULL;
    END IF;
END
$$;
