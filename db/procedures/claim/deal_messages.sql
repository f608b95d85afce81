-- Procedure:  deal_messages
-- Purpose:    Deals messages to consumers in the order of their slots. A consumer for which a message is too large
--             now gets no more in this round; a message that is too large for all ends it, so that none is
--             passed over.
-- Returns:
--   int[]                   per message: the consumer that gets it; the messages behind get dealt later
CREATE OR REPLACE FUNCTION telesto.deal_messages(
    slots int[],         -- the consumers in the order in which they get messages, each as often as it may
    sizes int[],         -- per message, in order: the length of its body
    max_bytes bigint[],  -- per consumer: how many bytes of bodies it may get
    largest bigint[],    -- per consumer: the length of the longest body that it can be given at all
    idle boolean[],      -- per consumer: it has nothing, so a first message may be beyond max_bytes
    answer_bytes bigint  -- how many bytes are dealt in all; a first message is whatever its size
)
RETURNS int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    total bigint := (SELECT coalesce(sum(size), 0) FROM unnest(sizes) AS size);
    left_bytes bigint[] := max_bytes;
    served boolean[] := array_fill(false, ARRAY[cardinality(max_bytes)]);
    next_slot int := 1;
    given bigint := 0;
    dealt int[] := '{}';
    consumer int;
BEGIN
    IF total <= answer_bytes AND total <= ALL (max_bytes) AND total <= ALL (largest) THEN
        RETURN slots[1:cardinality(sizes)];
    END IF;
    FOR i IN 1..cardinality(sizes) LOOP
        EXIT WHEN i > 1 AND given + sizes[i] > answer_bytes;
        LOOP
            consumer := slots[next_slot];
            EXIT WHEN consumer IS NULL
                OR (sizes[i] <= largest[consumer]
                    AND (sizes[i] <= left_bytes[consumer] OR (idle[consumer] AND NOT served[consumer])));
            left_bytes[consumer] := -1;
            served[consumer] := true;
            next_slot := next_slot + 1;
        END LOOP;
        EXIT WHEN consumer IS NULL;
        dealt := dealt || consumer;
        left_bytes[consumer] := left_bytes[consumer] - sizes[i];
        served[consumer] := true;
        given := given + sizes[i];
        next_slot := next_slot + 1;
    END LOOP;
    RETURN dealt;
END
$$;
