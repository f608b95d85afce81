-- Procedure:  absent_consumers
-- Purpose:    Which consumers of a queue are to have no partitions: those that are paused, and those that are slow
--             unless all that are not paused are.
-- Returns:
--   bigint[]                the consumers; empty when no other could have their partitions
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     consumers (read)
CREATE OR REPLACE FUNCTION telesto.absent_consumers(
    from_queue bigint  -- the queue
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    now constant timestamptz := clock_timestamp();
    members record;
BEGIN
    SELECT coalesce(array_agg(consumer.consumer_id) FILTER (WHERE consumer.paused), '{}') AS paused,
           coalesce(array_agg(consumer.consumer_id) FILTER (WHERE NOT consumer.paused AND consumer.slow_until > now),
                    '{}') AS slow,
           count(*) AS n
    INTO members
    FROM telesto.consumers AS consumer
    WHERE consumer.queue_id = from_queue;
    IF members.n = cardinality(members.paused) THEN
        RETURN '{}';
    ELSIF members.n = cardinality(members.paused) + cardinality(members.slow) THEN
        RETURN members.paused;
    END IF;
    RETURN members.paused || members.slow;
END
$$;
