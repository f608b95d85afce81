-- Procedure:  assign_takes
-- Purpose:    The slow path of take_batch: gives each read, in the batch's order, the messages that come first
--             among those for anyone and its own, within its limits.
-- Locks:      none; the caller holds the queues'
CREATE OR REPLACE FUNCTION telesto.assign_takes(
    INOUT verdicts smallint[],     -- with MESSAGE_TOO_LARGE added
    max_messages int[],            -- per request: how many messages at most
    max_bytes int[],               -- per request: how many bytes of bodies at most
    request_queues int[],          -- per request: the index of its queue
    request_pairs int[],           -- per request: the index of its pair (queue and reader)
    common_queues int[],           -- per message for anyone: the index of its queue, ascending
    common_priorities smallint[],  -- its priority
    common_ids bigint[],           -- its id; each queue's messages in their order
    common_bytes int[],            -- the length of its body
    own_pairs int[],               -- per message for one reader: the index of the pair, ascending
    own_priorities smallint[],     -- its priority
    own_ids bigint[],              -- its id; each pair's messages in their order
    own_bytes int[],               -- the length of its body
    OUT related_ids bigint[],      -- per request: the message that is too large, else NULL
    OUT picks int[],               -- what is taken: positions among the common messages, or the negative of positions
                                   -- among the own ones
    OUT pick_requests int[]        -- who takes it
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    common_next int[];
    own_next int[];
    q int;
    p int;
    c int;
    o int;
    left_messages int;
    left_bytes bigint;
    take_own boolean;
    size int;
BEGIN
    related_ids := array_fill(NULL::bigint, ARRAY[cardinality(verdicts)]);
    picks := '{}';
    pick_requests := '{}';
    FOR i IN REVERSE coalesce(cardinality(common_queues), 0)..1 LOOP
        common_next[common_queues[i]] := i;
    END LOOP;
    FOR i IN REVERSE coalesce(cardinality(own_pairs), 0)..1 LOOP
        own_next[own_pairs[i]] := i;
    END LOOP;

    FOR r IN 1..cardinality(verdicts) LOOP
        CONTINUE WHEN verdicts[r] IS NOT NULL;
        q := request_queues[r];
        p := request_pairs[r];
        left_messages := max_messages[r];
        left_bytes := max_bytes[r];
        WHILE left_messages > 0 LOOP
            -- Positions of the heads; beyond a queue's or pair's last message the index differs or is NULL.
            c := common_next[q];
            IF common_queues[c] IS DISTINCT FROM q THEN c := NULL; END IF;
            o := own_next[p];
            IF own_pairs[o] IS DISTINCT FROM p THEN o := NULL; END IF;
            EXIT WHEN c IS NULL AND o IS NULL;
            take_own := c IS NULL OR own_priorities[o] > common_priorities[c]
                        OR (own_priorities[o] = common_priorities[c] AND own_ids[o] < common_ids[c]);
            take_own := coalesce(take_own, false);
            size := CASE WHEN take_own THEN own_bytes[o] ELSE common_bytes[c] END;
            IF size > left_bytes THEN
                IF left_messages = max_messages[r] THEN
                    verdicts[r] := :MESSAGE_TOO_LARGE;
                    related_ids[r] := CASE WHEN take_own THEN own_ids[o] ELSE common_ids[c] END;
                END IF;
                EXIT;
            END IF;
            IF take_own THEN
                own_next[p] := o + 1;
                picks := picks || -o;
            ELSE
                common_next[q] := c + 1;
                picks := picks || c;
            END IF;
            pick_requests := pick_requests || r;
            left_messages := left_messages - 1;
            left_bytes := left_bytes - size;
        END LOOP;
    END LOOP;
END
$$;
