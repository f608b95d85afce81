-- Procedure:  recover_leases
-- Purpose:    After a claim whose answer got lost: raises the consumers' epochs, so that the claim, if it has not
--             been executed yet, will find itself refused, and returns what it has leased.
-- Locks:      queues' take locks (wait)
-- Tables:     consumers (update), leases (read)
CREATE OR REPLACE FUNCTION telesto.recover_leases(
    queue_ids bigint[],     -- per consumer: its queue
    consumer_ids bigint[],  -- the consumers
    epochs bigint[],        -- per consumer: the new epoch
    seen_claims bigint[]    -- per consumer: the last claim that the middleware knows of
)
RETURNS SETOF telesto.claimed_message
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    PERFORM telesto.require_read_committed();
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
    FROM (SELECT DISTINCT unnest(queue_ids) AS queue_id ORDER BY 1) AS queue;
    UPDATE telesto.consumers AS consumer
    SET epoch = wanted.epoch
    FROM (SELECT unnest(queue_ids) AS queue_id, unnest(consumer_ids) AS consumer_id, unnest(epochs) AS epoch)
         AS wanted
    WHERE consumer.queue_id = wanted.queue_id AND consumer.consumer_id = wanted.consumer_id;
    RETURN QUERY
    SELECT 'message', wanted.i, NULL::smallint, NULL::bigint, lease.lease_id, lease.message_id, lease.queue_id, lease.sender_id,
           lease.receiver_id, lease.priority, lease.time_of_arrival, lease.attempt, lease.redelivered,
           lease.context, lease.body, lease.headers, lease.claim_id, lease.partition_key, lease.origin,
           telesto.life_left(lease.expires_at, clock_timestamp())
    FROM (SELECT unnest(consumer_ids) AS consumer_id, unnest(seen_claims) AS seen_claim,
                 generate_series(1, cardinality(consumer_ids)) AS i) AS wanted
    CROSS JOIN LATERAL (SELECT lease.* FROM telesto.leases AS lease
                        WHERE lease.consumer_id = wanted.consumer_id AND lease.claim_id > wanted.seen_claim
                        OFFSET 0) AS lease
    ORDER BY wanted.i, lease.claim_id, CASE WHEN lease.partition_key IS NULL THEN lease.priority ELSE 11 END DESC,
             lease.message_id;
END
$$;
