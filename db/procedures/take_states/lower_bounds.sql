-- Procedure:  lower_bounds
-- Purpose:    Replaces the states of queues that messages came back to: the totals fall, and the bounds of
--             scans fall to what came back below them. Of messages that were hidden in the queue and come to
--             sight only the latter holds.
-- Locks:      none; the caller holds the queues'
-- Tables:     take_states, receiver_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.lower_bounds(
    queues bigint[],                -- the queues whose take locks are held, sorted
    state_rows tid[],               -- per queue: where its take state is; NULL when it does not exist
    queue_ids bigint[],             -- per message that came back: its queue
    receiver_ids bigint[],          -- for whom; 0 for anyone
    priorities smallint[],          -- its priority
    message_ids bigint[],           -- its id
    hidden boolean[] DEFAULT NULL,  -- whether it is not in sight yet; NULL when all are
    surfaced boolean DEFAULT false  -- whether they were hidden in the queue and are in sight now
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    WITH back AS (
        SELECT message.queue_id, count(*) AS n, count(*) FILTER (WHERE message.hidden) AS hidden,
               count(*) FILTER (WHERE message.receiver_id > 0 AND message.hidden IS NOT TRUE) AS directed,
               telesto.lowest_ids(
                   array_agg(message.priority) FILTER (WHERE message.receiver_id = 0 AND message.hidden IS NOT TRUE),
                   array_agg(message.message_id) FILTER (WHERE message.receiver_id = 0
                                                           AND message.hidden IS NOT TRUE)) AS floor
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id,
                     unnest(priorities) AS priority, unnest(message_ids) AS message_id,
                     unnest(hidden) AS hidden) AS message
        GROUP BY message.queue_id
    ), replaced AS (
        DELETE FROM telesto.take_states AS state
        USING back
        WHERE state.ctid = state_rows[telesto.sorted_index(back.queue_id, queues)]
        RETURNING state.*, back.n, back.directed, back.hidden, back.floor
    )
    INSERT INTO telesto.take_states (queue_id, version, total, directed_total, hidden_total, lower)
    SELECT replaced.queue_id, replaced.version + 1,
           CASE WHEN surfaced THEN replaced.total ELSE replaced.total - replaced.n END,
           replaced.directed_total - replaced.directed,
           CASE WHEN surfaced THEN replaced.hidden_total + replaced.n
                ELSE replaced.hidden_total - replaced.hidden END,
           ARRAY(SELECT least(replaced.lower[level.priority], replaced.floor[level.priority])
                 FROM generate_series(1, 10) AS level (priority))
    FROM replaced;

    WITH back AS (
        SELECT message.queue_id, message.receiver_id,
               telesto.lowest_ids(array_agg(message.priority), array_agg(message.message_id)) AS floor
        FROM (SELECT unnest(queue_ids) AS queue_id, unnest(receiver_ids) AS receiver_id,
                     unnest(priorities) AS priority, unnest(message_ids) AS message_id,
                     unnest(hidden) AS hidden) AS message
        WHERE message.receiver_id > 0 AND message.hidden IS NOT TRUE
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
