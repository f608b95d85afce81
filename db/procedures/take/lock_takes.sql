-- Procedure:  lock_takes
-- Purpose:    Takes the take locks of the queues that requests need.
-- Locks:      queues' take locks (of one queue, if it waits: wait; else: try)
CREATE OR REPLACE FUNCTION telesto.lock_takes(
    queue_ids bigint[],         -- per request: the queue
    request_errors smallint[],  -- per request: the fence's verdict; NULL when all passed
    waits boolean,              -- whether the lock of a single queue is waited for
    OUT queues bigint[],        -- the distinct queues of requests that passed, sorted
    OUT granted boolean[]       -- per queue: whether its lock is held now
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    queues := ARRAY(SELECT DISTINCT request.queue_id
                    FROM (SELECT unnest(queue_ids) AS queue_id, unnest(request_errors) AS error) AS request
                    WHERE request.queue_id IS NOT NULL AND request.error IS NULL
                    ORDER BY request.queue_id);
    IF waits AND cardinality(queues) = 1 THEN
        PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queues[1]));
        granted := ARRAY[true];
    ELSE
        granted := ARRAY(SELECT pg_try_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
                         FROM (SELECT unnest(queues) AS queue_id) AS queue);
    END IF;
END
$$;
