-- Procedure:  advance_takes
-- Purpose:    Replaces the take states of queues after messages were taken in order of priority and age: the
--             totals rise, and the bounds of scans for anyone's messages rise behind the last one taken.
-- Locks:      none; the caller holds the queues'
-- Tables:     take_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.advance_takes(
    state_rows tid[],            -- per queue: where its take state is
    last_ids bigint[],           -- per queue: its last id as read before the scan
    pick_queues int[],           -- per message taken: the index of its queue
    pick_readers bigint[],       -- the reader that it was for; 0 for anyone; NULL when all were
    pick_priorities smallint[],  -- its priority
    pick_ids bigint[],           -- its id; each queue's messages for anyone in their order
    kept bigint[] DEFAULT NULL   -- by priority, the first message for anyone that was passed over in the only queue;
                                 -- NULL for none
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    WITH picked AS (
        SELECT pick.queue, count(*) AS n, count(*) FILTER (WHERE pick.reader > 0) AS directed,
               max(pick.i) FILTER (WHERE pick.reader = 0 OR pick.reader IS NULL) AS last
        FROM (SELECT unnest(pick_queues) AS queue, unnest(pick_readers) AS reader,
                     generate_series(1, cardinality(pick_queues)) AS i) AS pick
        GROUP BY pick.queue
    ), replaced AS (
        DELETE FROM telesto.take_states AS state
        USING picked
        WHERE state.ctid = state_rows[picked.queue]
        RETURNING state.*, picked.n, picked.directed, last_ids[picked.queue] AS last_id,
                  pick_priorities[picked.last]::int AS priority, pick_ids[picked.last] AS message_id
    )
    INSERT INTO telesto.take_states (queue_id, version, total, directed_total, hidden_total, lower)
    SELECT state.queue_id, state.version + 1, state.total + state.n, state.directed_total + state.directed,
           state.hidden_total,
           CASE WHEN state.message_id IS NULL THEN state.lower
                WHEN kept IS NOT NULL
                THEN ARRAY(SELECT least(bound.lower, kept[bound.priority])
                           FROM unnest(telesto.next_bounds(state.lower, state.last_id, state.priority,
                                                           state.message_id))
                                WITH ORDINALITY AS bound (lower, priority)
                           ORDER BY bound.priority)
                ELSE telesto.next_bounds(state.lower, state.last_id, state.priority, state.message_id) END
    FROM replaced AS state;
END
$$;
