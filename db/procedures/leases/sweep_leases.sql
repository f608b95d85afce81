-- Procedure:  sweep_leases
-- Purpose:    Gives back what consumers have kept too long, and what consumers have that are gone: their middleware
--             is not there any more, or their client has opened another session. It counts only for messages of which the
--             database knows that they were begun.
-- Locks:      queues' take locks (wait), middlewares' rows (wait). Leases that another transaction ends are left
--             to it
-- Tables:     jobs (read, update), middlewares (lock), clients, queues (read), consumers (read, delete), leases (delete),
--             ended_consumers (read, delete), lost_leases (insert), messages (insert), dead_letters (insert), take_states, receiver_states (insert,
--             delete),
--             history_calendar (read), history (insert)
CREATE OR REPLACE FUNCTION telesto.sweep_leases(
    max_rows int,              -- at most about this many messages, at most this many consumers
    latest timestamptz,        -- the clock of this server was not beyond this, unless it was set; NULL when that is not
                               -- known
    OUT done bigint,           -- leases and consumers ended
    OUT more boolean,          -- whether there is more to do at once
    OUT queue_ids bigint[],    -- per message that came back: its queue
    OUT receiver_ids bigint[]  -- per message that came back: for whom; 0 for anyone
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    due constant timestamptz := least(clock_timestamp(), latest);
    held_look constant interval := '10 seconds';
    looked_from constant timestamptz := telesto.looked_from('leases', due);
    queues bigint[];
    gone record;
    back record;
    lease_rows tid[];
    overdue bigint;
    lost_consumers bigint[];
    lost_ids bigint[];
    lost_messages bigint[];
    first_left timestamptz;
BEGIN
    SELECT array_agg(DISTINCT lease.queue_id), count(*)
    INTO queues, overdue
    FROM (SELECT lease.queue_id FROM telesto.leases AS lease
          WHERE lease.deadline > looked_from AND lease.deadline <= due
          ORDER BY lease.deadline
          LIMIT max_rows) AS lease;
    queues := ARRAY(SELECT DISTINCT queue.queue_id
                    FROM (SELECT unnest(queues) AS queue_id
                          UNION ALL
                          SELECT orphan.queue_id FROM telesto.orphaned_consumers(max_rows) AS orphan
                          UNION ALL
                          (SELECT ended.queue_id FROM telesto.ended_consumers AS ended LIMIT max_rows)) AS queue
                    ORDER BY queue.queue_id);
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(queue.queue_id))
    FROM (SELECT unnest(queues) AS queue_id) AS queue;

    SELECT array_agg(lease.ctid) INTO lease_rows
    FROM (SELECT lease.ctid FROM telesto.leases AS lease
          WHERE lease.deadline > looked_from AND lease.deadline <= due AND lease.queue_id = ANY (queues)
          ORDER BY lease.deadline
          LIMIT max_rows
          FOR UPDATE SKIP LOCKED) AS lease;
    done := coalesce(cardinality(lease_rows), 0);
    IF done > 0 THEN
        SELECT array_agg(lease.consumer_id), array_agg(lease.lease_id), array_agg(lease.message_id)
        INTO lost_consumers, lost_ids, lost_messages
        FROM telesto.leases AS lease
        WHERE lease.ctid = ANY (lease_rows);
        SELECT returned.* INTO back
        FROM telesto.return_leases(queues, lease_rows, true, NULL, 'late', 0) AS returned;
        queue_ids := back.queue_ids;
        receiver_ids := back.receiver_ids;
        INSERT INTO telesto.lost_leases (middleware_id, consumer_id, lease_id, message_id)
        SELECT consumer.middleware_id, lost.consumer_id, lost.lease_id, lost.message_id
        FROM (SELECT unnest(lost_consumers || back.follower_consumers) AS consumer_id,
                     unnest(lost_ids || back.follower_leases) AS lease_id,
                     unnest(lost_messages || back.follower_ids) AS message_id) AS lost
        CROSS JOIN LATERAL (SELECT consumer.middleware_id
                            FROM (SELECT unnest(queues) AS queue_id) AS queue
                            CROSS JOIN LATERAL (SELECT consumer.middleware_id FROM telesto.consumers AS consumer
                                                WHERE consumer.queue_id = queue.queue_id
                                                  AND consumer.consumer_id = lost.consumer_id
                                                LIMIT 1) AS consumer
                            LIMIT 1) AS consumer
        -- A middleware that is gone never asks for its own.
        CROSS JOIN LATERAL (SELECT FROM telesto.middlewares AS middleware
                            WHERE middleware.middleware_id = consumer.middleware_id
                            LIMIT 1
                            FOR KEY SHARE) AS middleware
        ON CONFLICT DO NOTHING;
    END IF;

    FOR gone IN
        SELECT orphan.queue_id, array_agg(orphan.consumer_id) AS consumer_ids
        FROM telesto.orphaned_consumers(max_rows) AS orphan
        WHERE orphan.queue_id = ANY (queues)
        GROUP BY orphan.queue_id
    LOOP
        SELECT ended.* INTO back FROM telesto.end_consumers(gone.queue_id, gone.consumer_ids, true, NULL) AS ended;
        queue_ids := queue_ids || back.queue_ids;
        receiver_ids := receiver_ids || back.receiver_ids;
        done := done + cardinality(gone.consumer_ids);
    END LOOP;

    FOR gone IN
        SELECT ended.queue_id, ended.counted, array_agg(ended.consumer_id) AS consumer_ids
        FROM (SELECT ended.* FROM telesto.ended_consumers AS ended
              WHERE ended.queue_id = ANY (queues)
              LIMIT max_rows) AS ended
        GROUP BY ended.queue_id, ended.counted
    LOOP
        -- They were being acknowledged, so they were begun.
        SELECT array_agg(held.lease_row), array_agg(held.message_id) INTO lease_rows, lost_messages
        FROM (SELECT lease.ctid AS lease_row, lease.message_id
              FROM (SELECT unnest(gone.consumer_ids) AS consumer_id) AS ended
              CROSS JOIN LATERAL (SELECT lease.ctid, lease.message_id FROM telesto.leases AS lease
                                  WHERE lease.consumer_id = ended.consumer_id
                                  FOR UPDATE SKIP LOCKED) AS lease) AS held;
        IF lease_rows IS NOT NULL THEN
            SELECT returned.* INTO back
            FROM telesto.return_leases(ARRAY[gone.queue_id], lease_rows, gone.counted, lost_messages, 'lost', 0)
                 AS returned;
            queue_ids := queue_ids || back.queue_ids;
            receiver_ids := receiver_ids || back.receiver_ids;
            done := done + cardinality(lease_rows);
        END IF;
        DELETE FROM telesto.ended_consumers AS ended
        WHERE ended.queue_id = gone.queue_id AND ended.consumer_id = ANY (gone.consumer_ids)
          AND NOT EXISTS (SELECT FROM telesto.leases AS lease WHERE lease.consumer_id = ended.consumer_id);
    END LOOP;

    -- What others hold is looked at again, for a while by each look, then by that of each minute: as long as an
    -- application's transaction is open, what has ended since stays in the index, and each look walks over it.
    SELECT lease.deadline INTO first_left
    FROM telesto.leases AS lease
    WHERE lease.deadline > looked_from AND lease.deadline <= due
    ORDER BY lease.deadline
    LIMIT 1;
    more := overdue = max_rows AND done > 0;
    IF overdue < max_rows THEN
        first_left := greatest(first_left, due - held_look);
    END IF;
    PERFORM telesto.look_ended('leases', least(first_left, due));
END
$$;
