-- Procedure:  partition_state
-- Purpose:    The state of a queue's partitions, with the consumers that it has now.
-- Returns:
--   partition_states   the newest version, brought up to the consumers of now; version 0 before the first
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     partition_states, consumers (read)
CREATE OR REPLACE FUNCTION telesto.partition_state(
    from_queue bigint  -- the queue
)
RETURNS telesto.partition_states
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    state telesto.partition_states;
    members constant bigint[] := ARRAY(SELECT consumer.consumer_id FROM telesto.consumers AS consumer
                                       WHERE consumer.queue_id = from_queue
                                       ORDER BY consumer.queue_id, consumer.consumer_id);
BEGIN
    SELECT newest.* INTO state
    FROM telesto.partition_states AS newest
    WHERE newest.queue_id = from_queue
    ORDER BY newest.version DESC
    LIMIT 1;
    IF NOT FOUND THEN
        state := (from_queue, 0, 0, 0, 0, 0, '{}', '{}', '{}');
    END IF;
    IF state.consumer_ids <> members THEN
        SELECT coalesce(array_agg(coalesce(state.counts[known.at], 0) ORDER BY member.consumer_id), '{}'),
               coalesce(array_agg(coalesce(state.ready_from[known.at], 0) ORDER BY member.consumer_id), '{}')
        INTO state.counts, state.ready_from
        FROM unnest(members) AS member (consumer_id)
        CROSS JOIN LATERAL (SELECT array_position(state.consumer_ids, member.consumer_id) AS at) AS known;
        state.consumer_ids := members;
    END IF;
    RETURN state;
END
$$;
