-- Procedure:  change_consumers
-- Purpose:    Notes that consumers are slow, so that others get their partitions until the queue's window has passed,
--             and whether they are paused, so that they are given none. Claims move the partitions.
-- Locks:      the queues' take locks (wait)
-- Tables:     queues (read), consumers (update)
CREATE OR REPLACE FUNCTION telesto.change_consumers(
    queue_ids bigint[],        -- per consumer: its queue
    consumer_ids bigint[],     -- the consumers; one that is gone is passed over
    slow boolean[],            -- per consumer: whether it has become slow
    paused boolean[],          -- per consumer: whether it has no credit
    OUT moving boolean[],      -- per consumer: whether it has become slow and another one gets its partitions
    OUT woken_ids bigint[],    -- the queues that it is time to claim from
    OUT receiver_ids bigint[]  -- 0 for each
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz;
BEGIN
    PERFORM telesto.require_read_committed();
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
    FROM (SELECT DISTINCT unnest(queue_ids) AS queue_id ORDER BY 1) AS queue;
    now := clock_timestamp();
    UPDATE telesto.consumers AS consumer
    SET slow_until = CASE WHEN changed.slow THEN now + make_interval(secs => queue.late_window_ms / 1000.0)
                          ELSE consumer.slow_until END,
        paused = changed.paused
    FROM (SELECT unnest(queue_ids) AS queue_id, unnest(consumer_ids) AS consumer_id, unnest(slow) AS slow,
                 unnest(paused) AS paused) AS changed
    CROSS JOIN LATERAL (SELECT queue.late_window_ms FROM telesto.queues AS queue
                        WHERE queue.queue_id = changed.queue_id
                        LIMIT 1) AS queue
    WHERE consumer.queue_id = changed.queue_id AND consumer.consumer_id = changed.consumer_id;
    SELECT array_agg(changed.slow AND coalesce(known.yes, false) AND coalesce(other.yes, false) ORDER BY changed.i)
    INTO moving
    FROM (SELECT unnest(queue_ids) AS queue_id, unnest(consumer_ids) AS consumer_id, unnest(slow) AS slow,
                 generate_series(1, cardinality(queue_ids)) AS i) AS changed
    LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.consumers AS consumer
                       WHERE consumer.queue_id = changed.queue_id AND consumer.consumer_id = changed.consumer_id
                       LIMIT 1) AS known ON true
    LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.consumers AS consumer
                       WHERE consumer.queue_id = changed.queue_id AND NOT consumer.paused
                         AND (consumer.slow_until IS NULL OR consumer.slow_until <= now)
                       LIMIT 1) AS other ON true;
    SELECT array_agg(queue.queue_id), array_agg(0::bigint) INTO woken_ids, receiver_ids
    FROM (SELECT DISTINCT unnest(queue_ids) AS queue_id) AS queue;
END
$$;
