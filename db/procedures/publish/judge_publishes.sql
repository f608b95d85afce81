-- Procedure:  judge_publishes
-- Purpose:    Decides message by message what is put where that is not plain: when a request is refused, busy
--             or repeated, when a publisher numbers its own messages.
-- Locks:      none; the caller holds the clients' and the topics'
-- Tables:     operations (read), publisher_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.judge_publishes(
    client_ids bigint[],           -- per request: who puts
    sessions bigint[],             -- per request: the session
    numbers bigint[],              -- per request: its number
    request_errors smallint[],     -- per request: the fence's verdict; NULL when all passed
    topics bigint[],               -- the distinct topics of requests that passed, sorted
    request_places int[],          -- per request: the index of its topic
    granted boolean[],             -- per topic: whether its lock is held
    lasts bigint[],                -- per topic: its last number
    element_requests int[],        -- per message: its request
    sequences bigint[],            -- per message: the publisher's own number; NULL without
    OUT errors smallint[],         -- as publish_batch answers them
    OUT message_numbers bigint[],  -- the same
    OUT duplicates boolean[]       -- the same
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    verdicts smallint[] := coalesce(request_errors, array_fill(NULL::smallint, ARRAY[cardinality(numbers)]));
    repeated constant boolean[] := telesto.repeated_numbers(client_ids, sessions, numbers);
    held_up bigint[] := '{}';
    message_count constant int := cardinality(element_requests);
    pairs int[];
    pair_sequences bigint[];
    pair_numbers bigint[];
    place int;
    p int;
    r int;
BEGIN
    -- A request that needs a busy topic is left for later, and so is all of its client after it.
    FOR r IN 1..cardinality(numbers) LOOP
        IF client_ids[r] = ANY (held_up) THEN
            verdicts[r] := coalesce(verdicts[r], :BUSY);
        ELSIF verdicts[r] = :BUSY OR (verdicts[r] IS NULL AND NOT granted[request_places[r]]) THEN
            verdicts[r] := :BUSY;
            held_up := held_up || client_ids[r];
        ELSIF verdicts[r] IS NULL AND repeated[r] THEN
            verdicts[r] := :NUMBER_REPEATED;
        END IF;
    END LOOP;

    SELECT known.pairs, known.sequences, known.numbers
    INTO pairs, pair_sequences, pair_numbers
    FROM telesto.publisher_sequences(client_ids, topics, request_places, verdicts, element_requests, sequences)
         AS known;
    errors := array_fill(NULL::smallint, ARRAY[message_count]);
    message_numbers := array_fill(0::bigint, ARRAY[message_count]);
    duplicates := array_fill(false, ARRAY[message_count]);
    FOR e IN 1..message_count LOOP
        r := element_requests[e];
        errors[e] := verdicts[r];
        CONTINUE WHEN errors[e] IS NOT NULL;
        p := pairs[e];
        IF sequences[e] <= pair_sequences[p] THEN
            duplicates[e] := true;
            message_numbers[e] := CASE WHEN sequences[e] = pair_sequences[p] THEN pair_numbers[p] ELSE 0 END;
            CONTINUE;
        ELSIF sequences[e] > pair_sequences[p] + 1 THEN
            errors[e] := :SEQUENCE_GAP;
            message_numbers[e] := pair_sequences[p] + 1;
            CONTINUE;
        END IF;
        place := request_places[r];
        lasts[place] := lasts[place] + 1;
        message_numbers[e] := lasts[place];
        IF sequences[e] IS NOT NULL THEN
            pair_sequences[p] := sequences[e];
            pair_numbers[p] := lasts[place];
        END IF;
    END LOOP;
    PERFORM telesto.advance_publishers(client_ids, topics, request_places, element_requests, pairs,
                                       pair_sequences, pair_numbers);
    IF NOT EXISTS (SELECT FROM unnest(errors) AS element (error) WHERE element.error IS NOT NULL) THEN
        errors := NULL;
    END IF;
    IF NOT true = ANY (duplicates) THEN
        duplicates := NULL;
    END IF;
END
$$;
