-- Procedure:  claim_batch
-- Purpose:    Leases messages to many consumers of many queues in one transaction. Each consumer's leases are
--             given back when it ends, when their time is up, or when it answers so.
-- Locks:      clients (shared, try), queues' take locks (of one queue, if it waits: wait; else: try)
-- Tables:     clients, consumers, queues, put_states (read), messages, keyed_messages, partition_arrivals (delete), leases
--             (insert), take_states, receiver_states, partitions, partition_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.claim_batch(
    queue_ids bigint[],         -- per consumer: its queue
    consumer_ids bigint[],      -- the consumers
    client_ids bigint[],        -- per consumer: its client
    sessions bigint[],          -- per consumer: the session that it belongs to
    epochs bigint[],            -- per consumer: the middleware's epoch, see recover_leases
    max_bytes bigint[],         -- per consumer: how many bytes of bodies it may get
    largest bigint[],           -- per consumer: the length of the longest body that it can be given at all
    idle boolean[],             -- per consumer: it has nothing, so a first message may be beyond max_bytes
    slots int[],                -- the consumers, by their places in the arrays, in the order in which they get
                                -- messages, each as often as it may get one
    answer_bytes bigint,        -- how many bytes of bodies are leased for each queue; a first message is whatever its
                                -- size
    waits boolean DEFAULT true  -- whether a claim from one queue waits for its lock
)
RETURNS SETOF telesto.claimed_message
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    verdicts smallint[];
    middleware_ids int[];
    queues bigint[];
    granted boolean[];
    from_queue bigint;
    refusal telesto.claimed_message;
BEGIN
    SELECT fence.errors INTO verdicts FROM telesto.fence_requests(client_ids, sessions) AS fence;
    SELECT locked.queues, locked.granted INTO queues, granted
    FROM telesto.lock_takes(queue_ids, verdicts, waits) AS locked;

    SELECT array_agg(CASE WHEN wanted.error IS NOT NULL THEN wanted.error
                          WHEN NOT granted[telesto.sorted_index(wanted.queue_id, queues)] THEN :BUSY
                          WHEN queue.yes IS NULL THEN :QUEUE_NOT_EXISTING
                          WHEN consumer.middleware_id IS NULL THEN :CONSUMER_NOT_EXISTING END ORDER BY wanted.i),
           array_agg(consumer.middleware_id::int ORDER BY wanted.i)
    INTO verdicts, middleware_ids
    FROM (SELECT unnest(queue_ids) AS queue_id, unnest(consumer_ids) AS consumer_id, unnest(epochs) AS epoch,
                 unnest(verdicts) AS error, generate_series(1, cardinality(queue_ids)) AS i) AS wanted
    LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.queues AS queue
                       WHERE queue.queue_id = wanted.queue_id
                       LIMIT 1) AS queue ON true
    LEFT JOIN LATERAL (SELECT consumer.middleware_id FROM telesto.consumers AS consumer
                       WHERE consumer.queue_id = wanted.queue_id AND consumer.consumer_id = wanted.consumer_id
                         AND consumer.epoch = wanted.epoch
                       LIMIT 1) AS consumer ON true;
    refusal.kind := 'refused';
    FOR r IN 1..cardinality(verdicts) LOOP
        IF verdicts[r] IS NOT NULL THEN
            refusal.request := r;
            refusal.error := verdicts[r];
            RETURN NEXT refusal;
        END IF;
    END LOOP;

    FOREACH from_queue IN ARRAY queues LOOP
        RETURN QUERY
        SELECT claimed.*
        FROM telesto.claim_queue(
            from_queue, consumer_ids, client_ids, middleware_ids,
            ARRAY(SELECT member.request FROM generate_series(1, cardinality(queue_ids)) AS member (request)
                  WHERE queue_ids[member.request] = from_queue AND verdicts[member.request] IS NULL),
            max_bytes, largest, idle,
            ARRAY(SELECT slot.request FROM (SELECT unnest(slots) AS request) AS slot
                  WHERE queue_ids[slot.request] = from_queue AND verdicts[slot.request] IS NULL),
            answer_bytes) AS claimed;
    END LOOP;
END
$$;
