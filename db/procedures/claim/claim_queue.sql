-- Procedure:  claim_queue
-- Purpose:    Leases messages of one queue to consumers: those of partitions that are theirs, then those without a
--             key. Where both wait, those of partitions get every other slot at first.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     queues, put_states, consumers (read), messages, keyed_messages, partition_arrivals (delete), leases
--             (insert), take_states, receiver_states, partitions, partition_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.claim_queue(
    from_queue bigint,      -- the queue
    consumer_ids bigint[],  -- the consumers of the call
    client_ids bigint[],    -- their clients
    middleware_ids int[],   -- through which middleware each consumes
    members int[],          -- the consumers of this queue, by their places in the arrays
    max_bytes bigint[],     -- per consumer: how many bytes of bodies it may get
    largest bigint[],       -- per consumer: the length of the longest body that it can be given at all
    idle boolean[],         -- per consumer: it has nothing, so a first message may be beyond max_bytes
    slots int[],            -- the consumers of this queue, in the order in which they get messages, each as often as it
                            -- may
    answer_bytes bigint     -- how many bytes of bodies are leased at most; a first message is whatever its size
)
RETURNS SETOF telesto.claimed_message
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    claim constant bigint := nextval('telesto.lease_ids');
    state record;
    keyed record;
    note telesto.claimed_message;
    left_slots int[] := slots;
    left_bytes bigint := answer_bytes;
BEGIN
    SELECT put.last_id, queue.lease_ms, put.hidden_total > taken.hidden_total AS hidden,
           put.total - put.hidden_total > taken.total - taken.hidden_total AS seen
    INTO state
    FROM (SELECT taken.* FROM telesto.take_states AS taken
          WHERE taken.queue_id = from_queue
          ORDER BY taken.version DESC
          LIMIT 1) AS taken
    CROSS JOIN LATERAL (SELECT put.* FROM telesto.put_states AS put
                        WHERE put.queue_id = from_queue
                        ORDER BY put.version DESC
                        LIMIT 1) AS put
    CROSS JOIN LATERAL (SELECT queue.lease_ms FROM telesto.queues AS queue
                        WHERE queue.queue_id = from_queue
                        LIMIT 1) AS queue;
    IF state.hidden AND members <> '{}' THEN
        SELECT claimed.* INTO keyed
        FROM telesto.claim_keyed(
            from_queue, state.last_id, consumer_ids, members,
            CASE WHEN state.seen
                 THEN ARRAY(SELECT slot.request FROM unnest(slots) WITH ORDINALITY AS slot (request, i)
                            CROSS JOIN (SELECT (random() * 2)::int % 2 AS turn) AS chance
                            WHERE slot.i % 2 = chance.turn)
                 ELSE slots END,
            max_bytes, largest, idle, answer_bytes) AS claimed;
        IF keyed.pick_rows IS NOT NULL THEN
            RETURN QUERY
            SELECT leased.*
            FROM telesto.lease_keyed(keyed.pick_rows, keyed.pick_requests, keyed.pick_leases, consumer_ids,
                                     client_ids, middleware_ids, claim, state.lease_ms) AS leased
            ORDER BY leased.request, leased.message_id;
            left_slots := telesto.slots_left(slots, keyed.pick_requests);
            FOR i IN 1..cardinality(keyed.pick_requests) LOOP
                max_bytes[keyed.pick_requests[i]] := max_bytes[keyed.pick_requests[i]] - keyed.pick_bytes[i];
                idle[keyed.pick_requests[i]] := false;
                left_bytes := left_bytes - keyed.pick_bytes[i];
            END LOOP;
        END IF;
        note.queue_id := from_queue;
        FOR i IN 1..coalesce(cardinality(keyed.more_requests), 0) LOOP
            note.kind := 'ready';
            note.request := keyed.more_requests[i];
            RETURN NEXT note;
        END LOOP;
        note.request := NULL;
        FOR i IN 1..coalesce(cardinality(keyed.woken_ids), 0) LOOP
            note.kind := 'ready_elsewhere';
            note.consumer_id := keyed.woken_ids[i];
            RETURN NEXT note;
        END LOOP;
        note.consumer_id := NULL;
        IF keyed.waiting THEN
            note.kind := 'unanswered';
            RETURN NEXT note;
        END IF;
        IF keyed.more THEN
            note.kind := 'reached';
            RETURN NEXT note;
        END IF;
    END IF;
    IF state.seen AND left_bytes > 0 THEN
        RETURN QUERY
        SELECT claimed.*
        FROM telesto.claim_common(from_queue, consumer_ids, client_ids, middleware_ids, max_bytes, largest, idle,
                                  left_slots, left_bytes, claim) AS claimed;
    END IF;
END
$$;
