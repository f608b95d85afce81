-- Procedure:  advance_receivers
-- Purpose:    Raises the lower bounds of single readers after their messages were taken. Now and then only: a
--             bound that lags costs the next scan a few dead entries, writing it each time costs more.
-- Locks:      none; the caller holds the queues'
-- Tables:     receiver_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.advance_receivers(
    queues bigint[],             -- the distinct queues, sorted
    last_ids bigint[],           -- per queue: its last id as read before the scan
    pick_queues int[],           -- per message taken: the index of its queue
    pick_readers bigint[],       -- the reader that it was for; 0 for anyone
    pick_priorities smallint[],  -- its priority
    pick_ids bigint[]            -- its id; each reader's messages in their order
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    enough constant int := 16;
    old_rows tid[];
BEGIN
    WITH reader AS (
        SELECT pick.queue, pick.reader, max(pick.i) AS last
        FROM unnest(pick_queues, pick_readers) WITH ORDINALITY AS pick (queue, reader, i)
        WHERE pick.reader > 0
        GROUP BY pick.queue, pick.reader
        HAVING count(*) >= enough OR random() * enough < 1
    ), successor AS (
        SELECT queues[reader.queue] AS queue_id, reader.reader, reader.last, state.state_row, state.version,
               coalesce(state.lower, array_fill(1::bigint, ARRAY[10])) AS lower,
               last_ids[reader.queue] AS last_id, pick_priorities[reader.last]::int AS priority,
               pick_ids[reader.last] AS message_id
        FROM reader
        LEFT JOIN LATERAL (SELECT state.ctid AS state_row, state.version, state.lower
                           FROM telesto.receiver_states AS state
                           WHERE state.queue_id = queues[reader.queue] AND state.receiver_id = reader.reader
                           ORDER BY state.version DESC
                           LIMIT 1) AS state ON true
    ), written AS (
        INSERT INTO telesto.receiver_states (queue_id, receiver_id, version, lower)
        SELECT state.queue_id, state.reader, coalesce(state.version, 0) + 1,
               telesto.next_bounds(state.lower, state.last_id, state.priority, state.message_id)
        FROM successor AS state
    )
    SELECT array_agg(state.state_row) INTO old_rows FROM successor AS state;
    DELETE FROM telesto.receiver_states AS state WHERE state.ctid = ANY (old_rows);
END
$$;
