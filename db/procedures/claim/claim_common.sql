-- Procedure:  claim_common
-- Purpose:    Leases messages of one queue to consumers: those for a consumer's client alone first, then those for
--             anyone, the highest priority first, the oldest first among equals. One that failed goes to another
--             consumer than before, where there is one.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     queues, consumers, put_states (read), messages (delete), leases (insert), take_states, receiver_states
--             (insert, delete)
CREATE OR REPLACE FUNCTION telesto.claim_common(
    from_queue bigint,      -- the queue
    consumer_ids bigint[],  -- the consumers of the call
    client_ids bigint[],    -- their clients
    middleware_ids int[],   -- through which middleware each consumes
    max_bytes bigint[],     -- per consumer: how many bytes of bodies it may get
    largest bigint[],       -- per consumer: the length of the longest body that it can be given at all
    idle boolean[],         -- per consumer: it has nothing, so a first message may be beyond max_bytes
    slots int[],            -- the consumers of this queue, by their places in the arrays, in the order in which they
                            -- get messages, each as often as it may
    answer_bytes bigint,    -- how many bytes of bodies are leased at most; a first message is whatever its size
    claim bigint            -- the claim, which becomes the lease
)
RETURNS SETOF telesto.claimed_message
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- No claim looks at many more messages than this, so that none lasts long.
    looked_max constant int := 2000;
    state record;
    own record;
    left_slots int[] := slots;
    left_bytes bigint := answer_bytes;
    part int[];
    picks record;
    pick_rows tid[] := '{}';
    pick_requests int[] := '{}';
    pick_readers bigint[] := '{}';
    pick_priorities smallint[] := '{}';
    pick_ids bigint[] := '{}';
    count_max int;
    dealt record;
    kept bigint[];
    more boolean := false;
    note telesto.claimed_message;
BEGIN
    -- The put state is read before the scan, so that all up to its last id is visible to it.
    SELECT taken.ctid AS state_row, taken.lower, put.last_id, put.upper, (put.total - put.hidden_total) - (taken.total - taken.hidden_total) AS depth,
           put.directed_total - taken.directed_total AS own_depth, queue.lease_ms
    INTO state
    FROM (SELECT taken.ctid, taken.* FROM telesto.take_states AS taken
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
    IF slots = '{}' OR state.depth = 0 THEN
        RETURN;
    END IF;

    IF state.own_depth > 0 THEN
        FOR own IN
            SELECT slot.client_id, array_agg(slot.request ORDER BY slot.i) AS slots
            FROM (SELECT unnest(slots) AS request, generate_series(1, cardinality(slots)) AS i) AS every
            CROSS JOIN LATERAL (SELECT every.request, every.i, client_ids[every.request] AS client_id) AS slot
            GROUP BY slot.client_id
            ORDER BY slot.client_id
        LOOP
            SELECT picked.* INTO picks
            FROM telesto.ready_messages(
                from_queue, own.client_id,
                coalesce((SELECT receiver.lower FROM telesto.receiver_states AS receiver
                          WHERE receiver.queue_id = from_queue AND receiver.receiver_id = own.client_id
                          ORDER BY receiver.version DESC
                          LIMIT 1), array_fill(1::bigint, ARRAY[10])),
                state.upper, least(cardinality(own.slots), state.own_depth)) AS picked;
            CONTINUE WHEN picks.message_ids IS NULL;
            part := telesto.deal_messages(own.slots, picks.sizes, max_bytes, largest, idle, left_bytes);
            count_max := cardinality(part);
            more := more OR count_max < cardinality(picks.message_ids);
            CONTINUE WHEN count_max = 0;
            left_slots := telesto.slots_left(left_slots, part);
            FOR i IN 1..count_max LOOP
                max_bytes[part[i]] := max_bytes[part[i]] - picks.sizes[i];
                idle[part[i]] := false;
                left_bytes := left_bytes - picks.sizes[i];
            END LOOP;
            pick_rows := pick_rows || picks.message_rows[1:count_max];
            pick_requests := pick_requests || part;
            pick_readers := pick_readers || array_fill(own.client_id, ARRAY[count_max]);
            pick_priorities := pick_priorities || picks.priorities[1:count_max];
            pick_ids := pick_ids || picks.message_ids[1:count_max];
        END LOOP;
    END IF;

    count_max := least(cardinality(left_slots), state.depth - state.own_depth);
    IF count_max > 0 AND left_bytes > 0 THEN
        LOOP
            SELECT picked.* INTO picks
            FROM telesto.ready_messages(from_queue, 0, state.lower, state.upper, count_max) AS picked;
            EXIT WHEN picks.failed IS NOT TRUE;
            SELECT other.* INTO dealt
            FROM telesto.deal_to_others(from_queue, picks.message_rows, picks.priorities, picks.message_ids,
                                        picks.sizes, consumer_ids, left_slots, max_bytes, largest, idle, left_bytes)
                 AS other;
            -- What is kept for others took no slots: behind it there may be something for these.
            EXIT WHEN NOT dealt.further OR cardinality(picks.message_ids) < count_max OR count_max > looked_max;
            count_max := 2 * count_max;
        END LOOP;
        IF picks.failed THEN
            kept := dealt.kept;
            more := more OR dealt.more;
            pick_rows := pick_rows || ARRAY(SELECT picks.message_rows[pick.i] FROM unnest(dealt.picks) AS pick (i));
            pick_requests := pick_requests || dealt.pick_requests;
            pick_readers := pick_readers || array_fill(0::bigint, ARRAY[cardinality(dealt.picks)]);
            pick_priorities := pick_priorities
                               || ARRAY(SELECT picks.priorities[pick.i] FROM unnest(dealt.picks) AS pick (i));
            pick_ids := pick_ids || ARRAY(SELECT picks.message_ids[pick.i] FROM unnest(dealt.picks) AS pick (i));
        ELSIF picks.message_ids IS NOT NULL THEN
            part := telesto.deal_messages(left_slots, picks.sizes, max_bytes, largest, idle, left_bytes);
            count_max := cardinality(part);
            more := more OR count_max < cardinality(picks.message_ids);
            pick_rows := pick_rows || picks.message_rows[1:count_max];
            pick_requests := pick_requests || part;
            pick_readers := pick_readers || array_fill(0::bigint, ARRAY[count_max]);
            pick_priorities := pick_priorities || picks.priorities[1:count_max];
            pick_ids := pick_ids || picks.message_ids[1:count_max];
        END IF;
    END IF;
    IF more THEN
        note.kind := 'more';
        note.queue_id := from_queue;
        RETURN NEXT note;
    END IF;
    IF pick_ids = '{}' THEN
        RETURN;
    END IF;

    RETURN QUERY
    SELECT leased.*
    FROM telesto.lease_messages(pick_rows, pick_requests, consumer_ids, client_ids, middleware_ids, claim,
                                state.lease_ms) AS leased
    ORDER BY leased.request, leased.priority DESC, leased.message_id;
    PERFORM telesto.advance_takes(ARRAY[state.state_row], ARRAY[state.last_id],
                                  array_fill(1, ARRAY[cardinality(pick_ids)]), pick_readers, pick_priorities,
                                  pick_ids, kept);
    IF state.own_depth > 0 THEN
        PERFORM telesto.advance_receivers(ARRAY[from_queue], ARRAY[state.last_id],
                                          array_fill(1, ARRAY[cardinality(pick_ids)]), pick_readers,
                                          pick_priorities, pick_ids);
    END IF;
END
$$;
