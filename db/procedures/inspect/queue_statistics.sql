-- Procedure:  queue_statistics
-- Purpose:    Counts what a queue holds, and tells what waits for what. Its states tell depth, directed_depth and the
--             totals, whatever its length. What is leased, delayed, has a key or is dead has no counter: of each of
--             these at most max_rows rows are read, without bodies and by an index, beside those that are dead and
--             not vacuumed yet. A queue that has none of them costs no more than its states and ten look-ups.
-- Tables:     queues, put_states, take_states, messages, delayed_messages, keyed_messages, consumers,
--             ended_consumers, leases, dead_letters (read)
CREATE OR REPLACE FUNCTION telesto.queue_statistics(
    queue_id bigint,            -- the queue
    max_rows int,               -- at most this many rows of each kind are counted
    OUT error smallint,         -- NULL or QUEUE_NOT_EXISTING
    OUT depth bigint,           -- messages that wait
    OUT directed_depth bigint,  -- those of them that wait for one receiver
    OUT ready bigint,           -- those of them that can be handed over now: without a key, or the first of a key of
                                -- which nothing is leased
    OUT delayed bigint,         -- those of them whose time has not come and that nobody has had
    OUT backing_off bigint,     -- those of them whose time has not come and that came back from a consumer
    OUT keyed bigint,           -- those of them that wait behind another message of their key, which waits or is leased
    OUT leased bigint,          -- messages that consumers have
    OUT dead bigint,            -- dead letters
    OUT put_total bigint,       -- messages ever put
    OUT taken_total bigint,     -- messages ever taken and not given back
    OUT max_messages bigint,    -- the bound; NULL without one
    OUT oldest_age_ms bigint,   -- how long the oldest of those that wait, but not for one receiver, has been there, in
                                -- milliseconds; NULL when there is none
    OUT exact boolean           -- false when max_rows rows of some kind were read: then ready, delayed, backing_off,
                                -- keyed, leased, dead and oldest_age_ms may be higher than is said
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    looked_at constant timestamptz := clock_timestamp();
    holders constant bigint[] := ARRAY(SELECT consumer.consumer_id FROM telesto.consumers AS consumer
                                       WHERE consumer.queue_id = queue_statistics.queue_id
                                       UNION ALL
                                       SELECT ended.consumer_id FROM telesto.ended_consumers AS ended
                                       WHERE ended.queue_id = queue_statistics.queue_id);
    hidden bigint;
    lower bigint[];
    upper bigint[];
    arrivals timestamptz[];
    elsewhere record;
    behind record;
BEGIN
    SELECT put.total - taken.total, put.directed_total - taken.directed_total, put.total, taken.total,
           queue.max_messages, put.hidden_total - taken.hidden_total, taken.lower, put.upper
    INTO depth, directed_depth, put_total, taken_total, queue_statistics.max_messages, hidden, lower, upper
    FROM telesto.queues AS queue
    CROSS JOIN LATERAL (SELECT put.* FROM telesto.put_states AS put
                        WHERE put.queue_id = queue.queue_id
                        ORDER BY put.version DESC
                        LIMIT 1) AS put
    CROSS JOIN LATERAL (SELECT taken.* FROM telesto.take_states AS taken
                        WHERE taken.queue_id = queue.queue_id
                        ORDER BY taken.version DESC
                        LIMIT 1) AS taken
    WHERE queue.queue_id = queue_statistics.queue_id;
    IF NOT FOUND THEN
        error := :QUEUE_NOT_EXISTING;
        RETURN;
    END IF;

    SELECT count(*) INTO leased
    FROM (SELECT
          FROM unnest(holders) AS holder (consumer_id)
          CROSS JOIN LATERAL (SELECT FROM telesto.leases AS lease
                              WHERE lease.consumer_id = holder.consumer_id
                              LIMIT max_rows) AS lease
          LIMIT max_rows) AS lease;
    SELECT count(*) INTO dead
    FROM (SELECT FROM telesto.dead_letters AS letter
          WHERE letter.queue_id = queue_statistics.queue_id
          LIMIT max_rows) AS letter;
    exact := leased < max_rows AND dead < max_rows;
    ready := depth - hidden;
    delayed := 0;
    backing_off := 0;
    keyed := 0;

    IF ready > directed_depth THEN
        arrivals := ARRAY(SELECT first.time_of_arrival
                          FROM generate_series(1, 10) AS level (priority)
                          CROSS JOIN LATERAL (SELECT message.time_of_arrival FROM telesto.messages AS message
                                              WHERE message.queue_id = queue_statistics.queue_id
                                                AND message.receiver_id = 0
                                                AND message.priority = level.priority
                                                AND message.message_id >= lower[level.priority]
                                                AND message.message_id <= upper[level.priority]
                                              ORDER BY message.message_id
                                              LIMIT 1) AS first
                          WHERE lower[level.priority] <= upper[level.priority]);
    END IF;
    IF hidden > 0 THEN
        SELECT count(*) AS read, count(*) FILTER (WHERE NOT message.redelivered) AS delayed,
               count(*) FILTER (WHERE message.redelivered) AS backing_off,
               min(message.time_of_arrival) AS arrival
        INTO elsewhere
        FROM (SELECT message.redelivered, message.time_of_arrival FROM telesto.delayed_messages AS message
              WHERE message.queue_id = queue_statistics.queue_id
              ORDER BY message.message_id
              LIMIT max_rows) AS message;
        -- What is leased of a key stands before all that waits of it.
        SELECT count(*) AS read,
               count(*) FILTER (WHERE message.due AND message.place = 1) AS ready,
               count(*) FILTER (WHERE message.due AND message.place > 1) AS keyed,
               count(*) FILTER (WHERE NOT message.due AND NOT message.redelivered) AS delayed,
               count(*) FILTER (WHERE NOT message.due AND message.redelivered) AS backing_off,
               min(message.time_of_arrival) AS arrival
        INTO behind
        FROM (SELECT message.leased, message.redelivered, message.time_of_arrival,
                     message.due_at IS NULL OR message.due_at <= looked_at AS due,
                     row_number() OVER (PARTITION BY message.sender_id, message.partition_key
                                        ORDER BY message.leased DESC, message.message_id) AS place
              FROM ((SELECT message.sender_id, message.partition_key, message.message_id, message.due_at,
                            message.redelivered, message.time_of_arrival, false AS leased
                     FROM telesto.keyed_messages AS message
                     WHERE message.queue_id = queue_statistics.queue_id
                     ORDER BY message.sender_id, message.partition_key, message.message_id
                     LIMIT max_rows)
                    UNION ALL
                    (SELECT lease.sender_id, lease.partition_key, lease.message_id, NULL, false,
                            lease.time_of_arrival, true
                     FROM unnest(holders) AS holder (consumer_id)
                     CROSS JOIN LATERAL (SELECT lease.* FROM telesto.leases AS lease
                                         WHERE lease.consumer_id = holder.consumer_id
                                         LIMIT max_rows) AS lease
                     WHERE lease.partition_key IS NOT NULL
                     LIMIT max_rows)) AS message) AS message
        WHERE NOT message.leased;
        ready := ready + behind.ready;
        keyed := behind.keyed;
        delayed := elsewhere.delayed + behind.delayed;
        backing_off := elsewhere.backing_off + behind.backing_off;
        arrivals := arrivals || elsewhere.arrival || behind.arrival;
        exact := exact AND elsewhere.read < max_rows AND behind.read < max_rows;
    END IF;
    SELECT greatest(0, (1000 * extract(epoch FROM looked_at - min(arrival.moment)))::bigint) INTO oldest_age_ms
    FROM unnest(arrivals) AS arrival (moment)
    HAVING min(arrival.moment) IS NOT NULL;
END
$$;
