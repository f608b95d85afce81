-- Procedure:  assign_windows
-- Purpose:    The fast path of take_batch: cuts each queue's messages into consecutive windows, one for each
--             read in the batch's order. Only when all bodies are sure to fit.
-- Returns:
--   int[]                   per message: the request that takes it; NULL when bodies may not fit
CREATE OR REPLACE FUNCTION telesto.assign_windows(
    queue_ids bigint[],  -- per request: the queue
    max_messages int[],  -- per request: how many messages at most
    max_bytes int[],     -- per request: how many bytes of bodies at most
    bases bigint[],      -- per distinct queue, sorted: how many messages the reads of the queues before want
    largest int,         -- the length of the longest body
    pick_queues int[],   -- per message: the index of its queue
    pick_ranks bigint[]  -- per message: its rank in its queue, counted from 0
)
RETURNS int[]
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    readers int[];
    starts bigint[];
    fitting boolean;
BEGIN
    IF cardinality(bases) = 1 AND max_messages = array_fill(1, ARRAY[cardinality(max_messages)])
            AND largest <= ALL (max_bytes) THEN
        RETURN ARRAY(SELECT generate_series(1, cardinality(pick_ranks)));
    END IF;

    SELECT array_agg(read.i), array_agg(read.total - read.max_messages), bool_and(read.fitting)
    INTO readers, starts, fitting
    FROM (SELECT read.i, read.max_messages, largest::bigint * read.max_messages <= read.max_bytes AS fitting,
                 sum(read.max_messages) OVER (ORDER BY read.queue_id, read.i ROWS UNBOUNDED PRECEDING) AS total
          FROM (SELECT unnest(queue_ids) AS queue_id, unnest(max_messages) AS max_messages,
                       unnest(max_bytes) AS max_bytes, generate_series(1, cardinality(queue_ids)) AS i) AS read
          ORDER BY read.queue_id, read.i) AS read;
    IF NOT fitting THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT readers[width_bucket(bases[pick.queue] + pick.rank, starts)]
                 FROM (SELECT unnest(pick_queues) AS queue, unnest(pick_ranks) AS rank) AS pick);
END
$$;
