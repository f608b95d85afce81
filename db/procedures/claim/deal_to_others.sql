-- Procedure:  deal_to_others
-- Purpose:    Deals messages for anyone to consumers as deal_messages does, where some of them have failed: such a message
--             goes to a consumer that it did not fail with last. While it is kept for others and the queue has others that
--             take messages, through whichever middleware, it is passed over if no other has a slot here.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     messages, consumers (read)
CREATE OR REPLACE FUNCTION telesto.deal_to_others(
    from_queue bigint,        -- the queue
    message_rows tid[],       -- where the messages are, in order
    priorities smallint[],    -- their priorities
    message_ids bigint[],     -- their ids
    sizes int[],              -- the lengths of their bodies
    consumer_ids bigint[],    -- the consumers of the call
    slots int[],              -- the consumers of this queue, by their places in the arrays, in the order in which they
                              -- get messages, each as often as it may
    max_bytes bigint[],       -- per consumer: how many bytes of bodies it may get
    largest bigint[],         -- per consumer: the length of the longest body that it can be given at all
    idle boolean[],           -- per consumer: it has nothing, so a first message may be beyond max_bytes
    answer_bytes bigint,      -- how many bytes are dealt in all; a first message is whatever its size
    OUT picks int[],          -- the messages that are given, by their places in the arrays
    OUT pick_requests int[],  -- the consumers that get them, by their places in the arrays
    OUT kept bigint[],        -- by priority, the first message that was passed over; NULL for none
    OUT more boolean,         -- whether some were passed over or did not fit
    OUT further boolean       -- whether consumers have slots left for what comes behind these messages
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- Nothing is kept for longer; what seems to be was noted before the clock was set back.
    kept_max constant interval := '30 seconds';
    looked_at constant timestamptz := clock_timestamp();
    takers constant bigint[] := ARRAY(SELECT consumer.consumer_id FROM telesto.consumers AS consumer
                                      WHERE consumer.queue_id = from_queue AND NOT consumer.paused
                                        AND (consumer.slow_until IS NULL OR consumer.slow_until <= looked_at));
    failed_by bigint[];
    is_kept boolean[];
    left_bytes bigint := answer_bytes;
    at int;
    consumer int;
BEGIN
    picks := '{}';
    pick_requests := '{}';
    kept := array_fill(NULL::bigint, ARRAY[10]);
    more := false;
    further := false;
    SELECT array_agg(message.failed_by ORDER BY place.i),
           array_agg(message.kept_until > looked_at AND message.kept_until <= looked_at + kept_max ORDER BY place.i)
    INTO failed_by, is_kept
    FROM unnest(message_rows) WITH ORDINALITY AS place (message_row, i)
    CROSS JOIN LATERAL (SELECT message.failed_by, message.kept_until FROM telesto.messages AS message
                        WHERE message.ctid = place.message_row
                        LIMIT 1) AS message;
    FOR nth IN 1..cardinality(message_rows) LOOP
        IF slots = '{}' THEN
            RETURN;
        ELSIF picks <> '{}' AND sizes[nth] > left_bytes THEN
            more := true;
            RETURN;
        END IF;
        SELECT slot.i, slot.request
        INTO at, consumer
        FROM unnest(slots) WITH ORDINALITY AS slot (request, i)
        WHERE sizes[nth] <= largest[slot.request] AND (sizes[nth] <= max_bytes[slot.request] OR idle[slot.request])
        ORDER BY consumer_ids[slot.request] IS NOT DISTINCT FROM failed_by[nth], slot.i
        LIMIT 1;
        IF (consumer IS NULL OR consumer_ids[consumer] = failed_by[nth])
           AND is_kept[nth] AND array_remove(takers, failed_by[nth]) <> '{}' THEN
            kept[priorities[nth]] := coalesce(kept[priorities[nth]], message_ids[nth]);
            more := true;
            CONTINUE;
        ELSIF consumer IS NULL THEN
            more := true;
            RETURN;
        END IF;
        slots := slots[:at - 1] || slots[at + 1:];
        max_bytes[consumer] := max_bytes[consumer] - sizes[nth];
        idle[consumer] := false;
        left_bytes := left_bytes - sizes[nth];
        picks := picks || nth;
        pick_requests := pick_requests || consumer;
    END LOOP;
    further := slots <> '{}' AND left_bytes > 0;
END
$$;
