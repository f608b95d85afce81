-- Procedure:  select_keyed
-- Purpose:    Chooses what consumers get of the partitions that are ready for them, the partitions in turn, and has
--             these stand in their lines anew.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     keyed_messages (read), partitions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.select_keyed(
    INOUT state telesto.partition_states,  -- the new state
    last_id bigint,                        -- the queue's last id: all up to it is visible
    consumer_ids bigint[],                 -- the consumers of the call
    slots int[],                           -- the consumers of this queue, by their places in the arrays, each as often
                                           -- as it may get a message
    max_bytes bigint[],                    -- per consumer: how many bytes of bodies it may get
    largest bigint[],                      -- per consumer: the length of the longest body that it can be given at all
    idle boolean[],                        -- per consumer: it has nothing, so a first message may be beyond max_bytes
    answer_bytes bigint,                   -- how many bytes of bodies at most; a first message is whatever its size
    others boolean,                        -- whether other consumers could have the partitions: what failed behind
                                           -- another one ends it then
    OUT pick_rows tid[],                   -- per message: where it is; NULL when there are none
    OUT pick_requests int[],               -- per message: the consumer that gets it, by its place in the arrays
    OUT pick_leases bigint[],              -- per message: its lease
    OUT pick_bytes int[]                   -- per message: the length of its body
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    now constant timestamptz := clock_timestamp();
    later constant interval := '1 second';
    entries record;
    found record;
BEGIN
    SELECT array_agg(entry.partition_row) AS rows, array_agg(entry.request) AS requests,
           array_agg(entry.sender_id) AS senders, array_agg(entry.partition_key) AS keys,
           array_agg(entry.next_id) AS next_ids, array_agg(CASE entry.lease_id WHEN 0 THEN nextval('telesto.lease_ids') ELSE entry.lease_id END) AS leases,
           -- So many of each as fill the slots, were there enough of all.
           array_agg(entry.share) AS shares, array_agg(entry.n) AS wanted
    INTO entries
    FROM (SELECT record.*, member.request, member.n,
                 ceil(member.n::numeric / count(*) OVER (PARTITION BY member.request))::int AS share
          FROM (SELECT every.request, count(*)::int AS n FROM unnest(slots) AS every (request) GROUP BY every.request)
               AS member
          CROSS JOIN LATERAL (SELECT record.ctid AS partition_row, record.* FROM telesto.partitions AS record
                              WHERE record.line = 1 AND record.line_id = consumer_ids[member.request]
                                AND record.place >= state.ready_from[array_position(state.consumer_ids,
                                                                                    consumer_ids[member.request])]
                              ORDER BY record.place
                              LIMIT member.n) AS record
          ORDER BY member.request, record.place) AS entry;
    IF entries.rows IS NULL THEN
        RETURN;
    END IF;

    -- Of each partition what comes before the first message that is not due, too large or for another consumer; of
    -- each consumer what fits, in turn. Both cut off ends, so nothing is passed over. One more is looked at than is given, to know
    -- whether there is one.
    SELECT array_agg(message.entry) AS entries, array_agg(message.message_row) AS rows,
           array_agg(message.message_id) AS ids, array_agg(message.bytes) AS bytes,
           array_agg(message.stop IS NULL AND message.depth <= entries.shares[message.entry]
                     AND message.nth <= entries.wanted[message.entry]
                     AND (message.used <= max_bytes[entries.requests[message.entry]]
                          OR (message.nth = 1 AND idle[entries.requests[message.entry]]))
                     AND (message.total <= answer_bytes OR message.first)) AS picked,
           array_agg(message.due_at) AS dues, array_agg(message.stop) AS stops
    INTO found
    FROM (SELECT fitting.*,
                 row_number() OVER consumer AS nth, sum(fitting.bytes) OVER consumer AS used,
                 sum(fitting.bytes) OVER turn AS total, row_number() OVER turn = 1 AS first
          FROM (SELECT ready.*,
                       min(CASE WHEN ready.due_at > now OR ready.bytes > largest[entries.requests[ready.entry]]
                                     OR (others AND ready.depth > 1
                                         AND ready.failed_by = consumer_ids[entries.requests[ready.entry]])
                                THEN ready.message_id END) OVER partition AS stop
                FROM (SELECT entry.i AS entry, message.*, row_number() OVER (PARTITION BY entry.i) AS depth
                      FROM generate_series(1, cardinality(entries.rows)) AS entry (i)
                      CROSS JOIN LATERAL (SELECT message.ctid AS message_row, message.message_id, message.due_at,
                                                 message.failed_by, octet_length(message.body)
                                                 + coalesce(telesto.headers_bytes(message.headers), 0) AS bytes
                                          FROM telesto.keyed_messages AS message
                                          WHERE message.queue_id = state.queue_id
                                            AND message.sender_id = entries.senders[entry.i]
                                            AND message.partition_key = entries.keys[entry.i]
                                            AND message.message_id >= entries.next_ids[entry.i]
                                            AND message.message_id <= last_id
                                            AND (message.expires_at IS NULL OR message.expires_at > now)
                                          ORDER BY message.message_id
                                          LIMIT entries.shares[entry.i] + 1) AS message) AS ready
                WINDOW partition AS (PARTITION BY ready.entry ORDER BY ready.message_id ROWS UNBOUNDED PRECEDING))
               AS fitting
          WINDOW consumer AS (PARTITION BY entries.requests[fitting.entry], fitting.stop IS NULL
                              ORDER BY fitting.depth, fitting.entry ROWS UNBOUNDED PRECEDING),
                 turn AS (PARTITION BY fitting.stop IS NULL
                          ORDER BY fitting.depth, fitting.entry ROWS UNBOUNDED PRECEDING)) AS message;

    SELECT array_agg(pick.message_row), array_agg(entries.requests[pick.entry]),
           array_agg(entries.leases[pick.entry]),
           array_agg(pick.bytes)
    INTO pick_rows, pick_requests, pick_leases, pick_bytes
    FROM (SELECT unnest(found.entries) AS entry, unnest(found.rows) AS message_row, unnest(found.bytes) AS bytes,
                 unnest(found.picked) AS picked) AS pick
    WHERE pick.picked;

    -- One that gave something, or has nothing to give, stands in line anew: behind the others if it may have more,
    -- apart while its head is not due (or too large: it is offered again later), else among those without messages.
    WITH outcome AS (
        SELECT message.entry AS i, count(message.message_id) AS n, count(*) FILTER (WHERE message.picked) AS picked,
               count(message.message_id) FILTER (WHERE message.stop IS NULL) AS ready,
               max(message.message_id) FILTER (WHERE message.picked) AS last_id,
               min(message.due_at) FILTER (WHERE message.stop = message.message_id) AS stop_due
        FROM (SELECT unnest(found.entries) AS entry, unnest(found.ids) AS message_id, unnest(found.picked) AS picked,
                     unnest(found.stops) AS stop, unnest(found.dues) AS due_at
              UNION ALL
              SELECT generate_series(1, cardinality(entries.rows)), NULL, NULL, NULL, NULL) AS message
        GROUP BY message.entry
    ), placed AS (
        SELECT outcome.*,
               CASE WHEN outcome.picked < outcome.ready THEN 1
                    WHEN outcome.ready < outcome.n THEN 4
                    ELSE 5 END AS line
        FROM outcome
    ), removed AS (
        DELETE FROM telesto.partitions AS record
        USING placed
        WHERE record.ctid = entries.rows[placed.i] AND (placed.line <> 1 OR placed.picked > 0)
        RETURNING record.*, placed.i, placed.picked, placed.last_id, placed.line AS new_line, placed.stop_due
    )
    INSERT INTO telesto.partitions (queue_id, sender_id, partition_key, owner_id, lease_id, next_id, line, line_id,
                                    place)
    SELECT removed.queue_id, removed.sender_id, removed.partition_key, removed.owner_id,
           CASE WHEN removed.picked > 0 THEN entries.leases[removed.i] ELSE removed.lease_id END,
           coalesce(removed.last_id + 1, removed.next_id), removed.new_line,
           CASE removed.new_line WHEN 1 THEN removed.owner_id ELSE 0 END,
           CASE removed.new_line
               WHEN 4 THEN (extract(epoch FROM coalesce(removed.stop_due, now + later)) * 1e6)::bigint
               ELSE nextval('telesto.partition_versions') END
    FROM removed
    ORDER BY removed.i;
END
$$;
