-- Procedure:  claim_keyed
-- Purpose:    Handles the partitions of one queue: those that puts have reached, those without an owner, those that move, those
--             of consumers that are to have none; then chooses what consumers get of those that are theirs, for lease_keyed.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     consumers, leases, keyed_messages (read), partition_arrivals (delete), partitions, partition_states,
--             take_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.claim_keyed(
    from_queue bigint,         -- the queue
    last_id bigint,            -- the queue's last id: all up to it is visible
    consumer_ids bigint[],     -- the consumers of the call
    members int[],             -- those of this queue, by their places in the arrays
    slots int[],               -- those that get messages, in the order in which they do, each as often as it may
    max_bytes bigint[],        -- per consumer: how many bytes of bodies it may get
    largest bigint[],          -- per consumer: the length of the longest body that it can be given at all
    idle boolean[],            -- per consumer: it has nothing, so a first message may be beyond max_bytes
    answer_bytes bigint,       -- how many bytes of bodies at most; a first message is whatever its size
    OUT pick_rows tid[],       -- per message: where it is; NULL when there are none
    OUT pick_requests int[],   -- per message: the consumer that gets it, by its place in the arrays
    OUT pick_leases bigint[],  -- per message: its lease
    OUT pick_bytes int[],      -- per message: the length of its body
    OUT more_requests int[],   -- the members for which more is ready
    OUT woken_ids bigint[],    -- other consumers that got partitions, by their ids
    OUT waiting boolean,       -- whether partitions wait until what is leased of them is answered
    OUT more boolean           -- whether puts have reached more partitions
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- What one claim does beyond handing out is bounded, so that no claim lasts long.
    partitions_max constant int := 1000;
    moves_max constant int := 64;
    state telesto.partition_states := telesto.partition_state(from_queue);
    before constant telesto.partition_states := state;
    absent_ids constant bigint[] := telesto.absent_consumers(from_queue);
    ranks int[];
    step record;
    head record;
    leaving boolean;
BEGIN
    -- Among those with as many partitions the first is who may get a message first.
    SELECT array_agg(CASE WHEN NOT member.consumer_id = ANY (absent_ids)
                          THEN coalesce(array_position(slots, array_position(consumer_ids, member.consumer_id)),
                                        2147483647) END ORDER BY member.i)
    INTO ranks
    FROM unnest(state.consumer_ids) WITH ORDINALITY AS member (consumer_id, i);

    SELECT routed.* INTO step FROM telesto.route_arrivals(state, last_id, partitions_max) AS routed;
    state := step.state;
    more := step.more;
    SELECT drained.* INTO step FROM telesto.drain_partitions(state, partitions_max) AS drained;
    state := step.state;
    waiting := step.waiting;
    IF absent_ids <> '{}' THEN
        SELECT evicted.* INTO step FROM telesto.evict_partitions(state, absent_ids, partitions_max) AS evicted;
        state := step.state;
        waiting := waiting OR step.leaving;
        more := more OR step.more;
        slots := ARRAY(SELECT slot.request FROM unnest(slots) WITH ORDINALITY AS slot (request, i)
                       WHERE NOT consumer_ids[slot.request] = ANY (absent_ids)
                       ORDER BY slot.i);
    END IF;
    SELECT assigned.* INTO step FROM telesto.assign_partitions(state, ranks, partitions_max) AS assigned;
    state := step.state;
    woken_ids := step.given;
    more := more OR step.more;
    SELECT moved.* INTO step FROM telesto.move_partitions(state, ranks, moves_max) AS moved;
    state := step.state;
    woken_ids := woken_ids || step.given;
    waiting := waiting OR step.leaving;
    SELECT selected.* INTO step
    FROM telesto.select_keyed(state, last_id, consumer_ids, slots, max_bytes, largest, idle, answer_bytes,
                              cardinality(array_remove(ranks, NULL)) > 1) AS selected;
    state := step.state;
    pick_rows := step.pick_rows;
    pick_requests := step.pick_requests;
    pick_leases := step.pick_leases;
    pick_bytes := step.pick_bytes;

    -- What comes to an empty line from now on comes behind the last version.
    FOR head IN
        SELECT member.request, member.at, record.place,
               coalesce(record.place, (SELECT last_value FROM telesto.partition_versions)) AS begins
        FROM (SELECT every.request, array_position(state.consumer_ids, consumer_ids[every.request]) AS at
              FROM unnest(members) AS every (request)) AS member
        LEFT JOIN LATERAL (SELECT record.place FROM telesto.partitions AS record
                           WHERE record.line = 1 AND record.line_id = state.consumer_ids[member.at]
                             AND record.place >= state.ready_from[member.at]
                           ORDER BY record.place
                           LIMIT 1) AS record ON true
    LOOP
        state.ready_from[head.at] := head.begins;
        IF head.place IS NOT NULL THEN
            more_requests := more_requests || head.request;
        END IF;
    END LOOP;
    woken_ids := ARRAY(SELECT DISTINCT woken.consumer_id FROM unnest(woken_ids) AS woken (consumer_id)
                       WHERE woken.consumer_id IS NOT NULL AND NOT woken.consumer_id = ANY (consumer_ids));
    IF state IS DISTINCT FROM before OR state.version = 0 THEN
        PERFORM telesto.next_partition_state(state);
    END IF;
    IF pick_rows IS NOT NULL THEN
        PERFORM telesto.count_hidden(from_queue, cardinality(pick_rows));
    END IF;
END
$$;
