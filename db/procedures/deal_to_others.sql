-- Procedure:  deal_to_others
-- Purpose:    Chooses which waiting messages for anyone consumers get, as ready_messages and deal_messages do, where some of
--             them have failed: such a message goes to a consumer that it did not fail with last. While it is kept for
--             others and the queue has others that take messages, somewhere, it is passed over if no other has a slot here.
-- Parameters:
--   from_queue bigint       the queue
--   consumer_ids bigint[]   the consumers of the call
--   lower bigint[]          by priority, the id below which nothing waits
--   upper bigint[]          by priority, the id above which nothing was put
--   slots int[]             the consumers of this queue, by their places in the arrays, in the order in which they get
--                           messages, each as often as it may
--   max_bytes bigint[]      per consumer: how many bytes of bodies it may get
--   largest bigint[]        per consumer: the length of the longest body that it can be given at all
--   idle boolean[]          per consumer: it has nothing, so a first message may be beyond max_bytes
--   answer_bytes bigint     how many bytes are dealt in all; a first message is whatever its size
-- Returns:
--   message_rows tid[]      where they are, in order
--   priorities smallint[]   their priorities
--   message_ids bigint[]    their ids
--   message_requests int[]  the consumers that get them, by their places in the arrays
--   kept bigint[]           by priority, the first message that was passed over; NULL for none
--   more boolean            whether some were passed over or did not fit
-- Errors:     none
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     messages, consumers (read)
CREATE OR REPLACE FUNCTION telesto.deal_to_others(
    from_queue bigint,
    consumer_ids bigint[],
    lower bigint[],
    upper bigint[],
    slots int[],
    max_bytes bigint[],
    largest bigint[],
    idle boolean[],
    answer_bytes bigint,
    OUT message_rows tid[],
    OUT priorities smallint[],
    OUT message_ids bigint[],
    OUT message_requests int[],
    OUT kept bigint[],
    OUT more boolean
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- So many more than there are slots are looked at, so that no claim lasts long.
    passed_max constant int := 1000;
    -- Nothing is kept for longer; what seems to be was noted before the clock was set back.
    kept_max constant interval := '30 seconds';
    looked_at constant timestamptz := clock_timestamp();
    takers constant bigint[] := ARRAY(SELECT consumer.consumer_id FROM telesto.consumers AS consumer
                                      WHERE consumer.queue_id = from_queue AND NOT consumer.paused
                                        AND (consumer.slow_until IS NULL OR consumer.slow_until <= looked_at));
    message record;
    at int;
    consumer int;
    left_bytes bigint := answer_bytes;
BEGIN
    message_rows := '{}';
    priorities := '{}';
    message_ids := '{}';
    message_requests := '{}';
    kept := array_fill(NULL::bigint, ARRAY[10]);
    more := false;
    FOR message IN
        SELECT candidate.*
        FROM generate_series(10, 1, -1) AS level (priority)
        CROSS JOIN LATERAL (SELECT message.ctid AS message_row, message.priority, message.message_id,
                                   octet_length(message.body) AS bytes, message.failed_by,
                                   message.kept_until > looked_at
                                   AND message.kept_until <= looked_at + kept_max AS is_kept
                            FROM telesto.messages AS message
                            WHERE message.queue_id = from_queue
                              AND message.receiver_id = 0
                              AND message.priority = level.priority
                              AND message.message_id >= lower[level.priority]
                              AND message.message_id <= upper[level.priority]
                              AND (message.expires_at IS NULL OR message.expires_at > looked_at)
                            ORDER BY message.message_id
                            LIMIT cardinality(slots) + passed_max) AS candidate
        WHERE lower[level.priority] <= upper[level.priority]
        LIMIT cardinality(slots) + passed_max
    LOOP
        EXIT WHEN slots = '{}';
        IF message_ids <> '{}' AND message.bytes > left_bytes THEN
            more := true;
            EXIT;
        END IF;
        SELECT slot.i, slot.request
        INTO at, consumer
        FROM unnest(slots) WITH ORDINALITY AS slot (request, i)
        WHERE message.bytes <= largest[slot.request]
          AND (message.bytes <= max_bytes[slot.request] OR idle[slot.request])
        ORDER BY consumer_ids[slot.request] IS NOT DISTINCT FROM message.failed_by, slot.i
        LIMIT 1;
        IF consumer IS NULL OR consumer_ids[consumer] = message.failed_by THEN
            IF message.is_kept AND array_remove(takers, message.failed_by) <> '{}' THEN
                kept[message.priority] := coalesce(kept[message.priority], message.message_id);
                more := true;
                CONTINUE;
            ELSIF consumer IS NULL THEN
                more := true;
                EXIT;
            END IF;
        END IF;
        slots := slots[:at - 1] || slots[at + 1:];
        max_bytes[consumer] := max_bytes[consumer] - message.bytes;
        idle[consumer] := false;
        left_bytes := left_bytes - message.bytes;
        message_rows := message_rows || message.message_row;
        priorities := priorities || message.priority;
        message_ids := message_ids || message.message_id;
        message_requests := message_requests || consumer;
    END LOOP;
END
$$;
