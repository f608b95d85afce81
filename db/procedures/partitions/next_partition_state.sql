-- Procedure:  next_partition_state
-- Purpose:    Replaces the state of a queue's partitions by its next version.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     partition_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.next_partition_state(
    state telesto.partition_states  -- what holds now; version and queue are those that partition_state gave
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO telesto.partition_states (queue_id, version, arrived_id, unowned_from, draining_from, leaving_from,
                                          consumer_ids, counts, ready_from)
    VALUES (state.queue_id, state.version + 1, state.arrived_id, state.unowned_from, state.draining_from,
            state.leaving_from, state.consumer_ids, state.counts, state.ready_from);
    DELETE FROM telesto.partition_states AS old
    WHERE old.queue_id = state.queue_id AND old.version = state.version;
END
$$;
