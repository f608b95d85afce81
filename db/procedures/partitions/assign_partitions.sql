-- Procedure:  assign_partitions
-- Purpose:    Gives partitions without an owner, or whose first message failed with their owner, to the consumers with
--             the fewest; one that failed to another consumer, where there is one.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.assign_partitions(
    INOUT state telesto.partition_states,  -- the new state
    ranks int[],                           -- per consumer of the state: who comes first among those with as many; NULL
                                           -- for one that gets none
    max_rows int,                          -- at most this many partitions
    OUT given bigint[],                    -- the consumers that got some
    OUT more boolean                       -- whether there may be more
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    partition_rows tid[];
    last_place bigint;
    found int;
    members constant int := cardinality(array_remove(ranks, NULL));
    owners int[];
    old_owners bigint[];
    shunned_ids bigint[];
    shunned int;
BEGIN
    given := '{}';
    more := false;
    IF coalesce(members, 0) = 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(record.partition_row), max(record.place), count(*), array_agg(record.owner_id),
           CASE WHEN max(record.failed_by) > 0 THEN array_agg(record.failed_by) END
    INTO partition_rows, last_place, found, old_owners, shunned_ids
    FROM (SELECT record.ctid AS partition_row, record.place, record.owner_id, record.failed_by FROM telesto.partitions AS record
          WHERE record.line = 2 AND record.line_id = state.queue_id AND record.place >= state.unowned_from
          ORDER BY record.place
          LIMIT max_rows) AS record;
    IF found = 0 THEN
        RETURN;
    END IF;
    more := found = max_rows;
    state.unowned_from := last_place + 1;
    IF shunned_ids IS NOT NULL THEN
        state.counts := ARRAY(
            SELECT member.count - (SELECT count(*) FROM unnest(old_owners) AS old (owner_id)
                                   WHERE old.owner_id = member.consumer_id)
            FROM (SELECT unnest(state.consumer_ids) AS consumer_id, unnest(state.counts) AS count,
                         generate_series(1, cardinality(state.counts)) AS i) AS member
            ORDER BY member.i);
    END IF;

    -- Round by round, each consumer that has not more than the others gets one.
    SELECT array_agg(turn.member) INTO owners
    FROM (SELECT member.at AS member
          FROM (SELECT generate_series(1, cardinality(ranks)) AS at, unnest(state.counts) AS count,
                       unnest(ranks) AS rank) AS member
          CROSS JOIN generate_series(0, found / members + least(found, (SELECT max(other.count) - min(other.count)
                                                                        FROM unnest(state.counts, ranks)
                                                                             AS other (count, rank)
                                                                        WHERE other.rank IS NOT NULL)))
               AS round (nth)
          WHERE member.rank IS NOT NULL
          ORDER BY member.count + round.nth, member.rank
          LIMIT found) AS turn;
    IF shunned_ids IS NOT NULL AND members > 1 THEN
        FOR i IN 1..found LOOP
            shunned := array_position(state.consumer_ids, shunned_ids[i]);
            IF owners[i] = shunned THEN
                owners[i] := (SELECT member.at
                              FROM (SELECT generate_series(1, cardinality(ranks)) AS at,
                                           unnest(state.counts) AS count, unnest(ranks) AS rank) AS member
                              WHERE member.rank IS NOT NULL AND member.at <> shunned
                              ORDER BY member.count, member.rank
                              LIMIT 1);
            END IF;
        END LOOP;
    END IF;
    WITH removed AS (
        DELETE FROM telesto.partitions AS record
        USING (SELECT unnest(partition_rows) AS partition_row, unnest(owners) AS member) AS pick
        WHERE record.ctid = pick.partition_row
        RETURNING record.*, pick.member
    )
    INSERT INTO telesto.partitions (queue_id, sender_id, partition_key, owner_id, lease_id, next_id, line, line_id,
                                    failed_by)
    SELECT removed.queue_id, removed.sender_id, removed.partition_key, state.consumer_ids[removed.member], 0,
           removed.next_id, 1, state.consumer_ids[removed.member], removed.failed_by
    FROM removed
    ORDER BY removed.place;

    SELECT array_agg(member.count + coalesce(got.n, 0) ORDER BY member.at),
           array_agg(state.consumer_ids[member.at]) FILTER (WHERE got.n > 0)
    INTO state.counts, given
    FROM (SELECT generate_series(1, cardinality(ranks)) AS at, unnest(state.counts) AS count) AS member
    LEFT JOIN LATERAL (SELECT count(*) AS n FROM unnest(owners) AS owner (at) WHERE owner.at = member.at) AS got
        ON true;
END
$$;
