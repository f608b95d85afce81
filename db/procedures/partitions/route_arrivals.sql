-- Procedure:  route_arrivals
-- Purpose:    Puts the partitions that puts have reached in their lines; those without an owner wait for one.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     partition_arrivals (delete), consumers, leases, keyed_messages (read), partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.route_arrivals(
    INOUT state telesto.partition_states,  -- the new state
    last_id bigint,                        -- the queue's last id: all up to it is visible
    max_rows int,                          -- at most this many arrivals
    OUT more boolean                       -- whether there are more
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    arrival_rows tid[];
    arrived_ids bigint[];
    senders bigint[];
    keys text[];
BEGIN
    SELECT array_agg(arrival.arrival_row), array_agg(arrival.message_id), array_agg(arrival.sender_id),
           array_agg(arrival.partition_key)
    INTO arrival_rows, arrived_ids, senders, keys
    FROM (SELECT arrival.ctid AS arrival_row, arrival.* FROM telesto.partition_arrivals AS arrival
          WHERE arrival.queue_id = state.queue_id AND arrival.message_id > state.arrived_id
            AND arrival.message_id <= last_id
          ORDER BY arrival.message_id
          LIMIT max_rows) AS arrival;
    more := coalesce(cardinality(arrival_rows), 0) = max_rows;
    state.arrived_id := CASE WHEN more THEN arrived_ids[max_rows] ELSE last_id END;
    IF arrival_rows IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM telesto.partition_arrivals AS arrival WHERE arrival.ctid = ANY (arrival_rows);

    -- Partitions that stand in another line know of what comes behind.
    SELECT array_agg(reached.sender_id), array_agg(reached.partition_key), array_agg(reached.message_id)
    INTO senders, keys, arrived_ids
    FROM (SELECT every.sender_id, every.partition_key, min(every.message_id) AS message_id
          FROM (SELECT unnest(senders) AS sender_id, unnest(keys) AS partition_key,
                       unnest(arrived_ids) AS message_id) AS every
          GROUP BY every.sender_id, every.partition_key) AS reached
    LEFT JOIN LATERAL (SELECT record.line FROM telesto.partitions AS record
                       WHERE record.queue_id = state.queue_id AND record.sender_id = reached.sender_id
                         AND record.partition_key = reached.partition_key
                       ORDER BY record.version DESC
                       LIMIT 1) AS record ON true
    WHERE record.line IS NULL OR record.line = 5;
    IF senders IS NOT NULL THEN
        PERFORM telesto.settle_partitions(array_fill(state.queue_id, ARRAY[cardinality(senders)]), senders, keys,
                                          arrived_ids, false);
    END IF;
END
$$;
