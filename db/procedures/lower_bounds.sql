-- Procedure:  lower_bounds
-- Purpose:    Replaces the states of queues that messages came back to: the totals fall, and the bounds of
--             scans fall to what came back below them.
-- Parameters:
--   queues bigint[]         the queues whose take locks are held, sorted
--   state_rows tid[]        per queue: where its take state is; NULL when it does not exist
--   queue_ids bigint[]      per message that came back: its queue
--   receiver_ids bigint[]   for whom; 0 for anyone
--   priorities smallint[]   its priority
--   message_ids bigint[]    its id
-- Returns:
--   void
-- Errors:     none raised
-- Locks:      none; the caller holds the queues'
-- Tables:     take_states, receiver_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.lower_bounds(
    queues bigint[],
    state_rows tid[],
    queue_ids bigint[],
    receiver_ids bigint[],
    priorities smallint[],
    message_ids bigint[]
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    WITH back AS (
        SELECT message.queue_id, count(*) AS n, count(*) FILTER (WHERE message.receiver_id > 0) AS directed,
               telesto.lowest_ids(array_agg(message.priority) FILTER (WHERE message.receiver_id = 0),
                                  array_agg(message.message_id) FILTER (WHERE message.receiver_id = 0)) AS floor
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id,
                     unnest(priorities) AS priority, unnest(message_ids) AS message_id) AS message
        GROUP BY message.queue_id
    ), replaced AS (
        DELETE FROM telesto.take_states AS state
        USING back
        WHERE state.ctid = state_rows[width_bucket(back.queue_id, queues)]
        RETURNING state.*, back.n, back.directed, back.floor
    )
    INSERT INTO telesto.take_states (queue_id, version, total, directed_total, lower)
    SELECT replaced.queue_id, replaced.version + 1, replaced.total - replaced.n,
           replaced.directed_total - replaced.directed,
           ARRAY(SELECT least(replaced.lower[level.priority], replaced.floor[level.priority])
                 FROM generate_series(1, 10) AS level (priority))
    FROM replaced;

    WITH back AS (
        SELECT message.queue_id, message.receiver_id,
               telesto.lowest_ids(array_agg(message.priority), array_agg(message.message_id)) AS floor
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id,
                     unnest(priorities) AS priority, unnest(message_ids) AS message_id) AS message
        WHERE message.receiver_id > 0
        GROUP BY message.queue_id, message.receiver_id
    ), replaced AS (
        DELETE FROM telesto.receiver_states AS state
        WHERE state.ctid = ANY (ARRAY(
            SELECT state.ctid
            FROM back
            CROSS JOIN LATERAL (SELECT state.ctid FROM telesto.receiver_states AS state
                                WHERE state.queue_id = back.queue_id AND state.receiver_id = back.receiver_id
                                ORDER BY state.version DESC
                                LIMIT 1) AS state))
        RETURNING state.*
    )
    INSERT INTO telesto.receiver_states (queue_id, receiver_id, version, lower)
    SELECT replaced.queue_id, replaced.receiver_id, replaced.version + 1,
           ARRAY(SELECT least(replaced.lower[level.priority], back.floor[level.priority])
                 FROM generate_series(1, 10) AS level (priority))
    FROM replaced
    JOIN back USING (queue_id, receiver_id);
END
$$;
