-- Procedure:  get_message_history
-- Purpose:    Tells what is known of a message: how it and its hand-overs ended, and where it is now. In one
--             snapshot, so that a message on the move is not missed.
-- Tables:     queues, put_states, take_states, messages, delayed_messages, keyed_messages, deliveries, leases, dead_letters,
--             history, clients, middleware_names (read)
CREATE OR REPLACE FUNCTION telesto.get_message_history(
    wanted_id bigint,      -- the message
    in_queue bigint,       -- only in this queue; 0 for all
    asking_client bigint,  -- who asks: the content of what is for one receiver is shown as may_see_directed says
    max_records int,       -- of how it ended at most this many, the latest
    max_bytes int,         -- no body longer than that, its headers included
    max_probes int,        -- at most this many look-ups among what waits
    asking_user bigint DEFAULT NULL,  -- the user of the client that asks; NULL for nobody
    administered text[] DEFAULT '{}'  -- patterns of the queues of which the user sees what is for others, too
)
RETURNS TABLE (
    error smallint,               -- NULL, or MESSAGE_NOT_EXISTING in a single row
    complete boolean,             -- whether it was looked for everywhere
    state text,                   -- ready, delayed, handed_over (not confirmed), leased, dead_letter, or how it ended:
                                  -- confirmed, acknowledged, unrecorded, returned, purged, expired, dead, deleted
    queue_id bigint,              -- its queue
    queue_name text,              -- the name; NULL when the queue is gone
    sender_id bigint,             -- who put it
    sender_name text,             -- the name; NULL when the client is gone
    receiver_id bigint,           -- the only client that may read it; 0 for anyone
    priority smallint,            -- 1 to 10
    context bigint,               -- connects request and response; NULL without
    time_of_arrival timestamptz,  -- when it was put
    put_through int,              -- through which middleware; NULL from SQL
    put_address text,             -- where that one was reached
    attempt int,                  -- how often it has been handed over
    redelivered boolean,          -- whether it came back after a hand-over
    client_id bigint,             -- to whom it was handed over last; NULL if never, or while it waits
    client_name text,             -- the name; NULL when the client is gone
    session bigint,               -- the session of the read; NULL for a consumer
    number bigint,                -- its number, 0 for one without; or the consumer's lease
    consumer_id bigint,           -- the consumer; NULL for a read
    handed_over_at timestamptz,   -- when; of one that is not confirmed, or when a takeover listed it last
    handed_over_through int,      -- through which middleware; NULL from SQL
    handed_over_address text,     -- where that one was reached
    due_at timestamptz,           -- when it can be read, if it is delayed
    deadline timestamptz,         -- until when a consumer has it, if it is leased
    ended_at timestamptz,         -- when that ended or it died; NULL for where it is now
    reason text,                  -- why it came back from a consumer, or died
    body bytea,                   -- the content, in the last row that has it
    headers jsonb                 -- the headers, in the last row that has them
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    waiting tid;
    found_in text;
    everywhere boolean;
    letter telesto.dead_letters;
BEGIN
    SELECT found.message_row, found.found_in, found.complete INTO waiting, found_in, everywhere
    FROM telesto.find_waiting(wanted_id, in_queue, max_probes) AS found;
    letter := telesto.find_dead_letter(wanted_id, in_queue);

    RETURN QUERY
    SELECT NULL::smallint, everywhere, record.state, record.queue_id, queue.name, record.sender_id, sender.name,
           record.receiver_id, record.priority, record.context, record.time_of_arrival, record.put_through,
           putting.address, record.attempt, record.redelivered, record.client_id, reader.name, record.session,
           record.number, record.consumer_id, record.handed_over_at, record.handed_over_through, taking.address,
           record.due_at, record.deadline, record.ended_at, record.reason,
           CASE WHEN record.has_body AND record.body_place = 1
                     AND octet_length(record.body) + coalesce(telesto.headers_bytes(record.headers), 0) <= max_bytes
                     AND shown.directed
                THEN record.body END,
           CASE WHEN record.headers_place = 1 AND telesto.headers_bytes(record.headers) <= max_bytes
                     AND shown.directed
                THEN record.headers END
    FROM ((SELECT history.ending::text AS state, history.queue_id, history.sender_id, history.receiver_id,
                  history.priority, history.context, history.time_of_arrival, history.put_through, history.attempt,
                  history.redelivered, history.client_id, history.session, history.number, history.consumer_id,
                  history.handed_over_at, history.handed_over_through, NULL::timestamptz AS due_at,
                  NULL::timestamptz AS deadline, history.ended_at, history.reason, history.body,
                  history.body IS NOT NULL AS has_body,
                  row_number() OVER (PARTITION BY history.body IS NOT NULL ORDER BY history.ended_at DESC)
                  AS body_place, history.headers,
                  row_number() OVER (PARTITION BY history.headers IS NOT NULL ORDER BY history.ended_at DESC)
                  AS headers_place
           FROM telesto.history AS history
           WHERE history.message_id = wanted_id
           ORDER BY history.ended_at DESC
           LIMIT max_records)
          UNION ALL
          SELECT 'dead_letter', letter.queue_id, letter.sender_id, letter.receiver_id, letter.priority,
                 letter.context, letter.time_of_arrival, letter.put_through, letter.attempt, letter.redelivered,
                 nullif(letter.client_id, 0), nullif(letter.session, 0),
                 CASE WHEN letter.session <> 0 THEN letter.number END, NULL,
                 CASE WHEN letter.client_id <> 0 THEN letter.handed_over_at END, letter.handed_over_through, NULL,
                 NULL, letter.died_at, letter.reason, NULL, false, 0, letter.headers, 1
          WHERE letter.message_id IS NOT NULL
          UNION ALL
          SELECT 'handed_over', delivery.queue_id, delivery.sender_id, delivery.receiver_id, delivery.priority,
                 delivery.context, delivery.time_of_arrival, delivery.put_through, delivery.attempt,
                 delivery.redelivered, delivery.client_id, delivery.session, delivery.number, NULL,
                 delivery.handed_over_at, delivery.handed_over_through, NULL, NULL, NULL, NULL, NULL, false, 0,
                 delivery.headers, 1
          FROM telesto.deliveries AS delivery
          WHERE delivery.message_id = wanted_id
          UNION ALL
          SELECT 'leased', lease.queue_id, lease.sender_id, lease.receiver_id, lease.priority, lease.context,
                 lease.time_of_arrival, lease.put_through, lease.attempt, lease.redelivered, lease.client_id, NULL,
                 lease.lease_id, lease.consumer_id, lease.handed_over_at, lease.handed_over_through, NULL,
                 lease.deadline, NULL, NULL, NULL, false, 0, lease.headers, 1
          FROM telesto.leases AS lease
          WHERE lease.message_id = wanted_id
          UNION ALL
          SELECT 'ready', message.queue_id, message.sender_id, message.receiver_id, message.priority,
                 message.context, message.time_of_arrival, message.put_through, message.attempt,
                 message.redelivered, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, 0,
                 message.headers, 1
          FROM telesto.messages AS message
          WHERE found_in = 'messages' AND message.ctid = waiting
          UNION ALL
          SELECT 'delayed', message.queue_id, message.sender_id, message.receiver_id, message.priority,
                 message.context, message.time_of_arrival, message.put_through, message.attempt,
                 message.redelivered, NULL, NULL, NULL, NULL, NULL, NULL, message.due_at, NULL, NULL, NULL, NULL,
                 false, 0, message.headers, 1
          FROM telesto.delayed_messages AS message
          WHERE found_in = 'delayed_messages' AND message.ctid = waiting
          UNION ALL
          SELECT CASE WHEN message.due_at > clock_timestamp() THEN 'delayed' ELSE 'ready' END, message.queue_id,
                 message.sender_id, 0, message.priority, message.context, message.time_of_arrival,
                 message.put_through, message.attempt, message.redelivered, NULL, NULL, NULL, NULL, NULL, NULL,
                 message.due_at, NULL, NULL, NULL, NULL, false, 0, message.headers, 1
          FROM telesto.keyed_messages AS message
          WHERE found_in = 'keyed_messages' AND message.ctid = waiting) AS record
    LEFT JOIN LATERAL (SELECT queue.name FROM telesto.queues AS queue
                       WHERE queue.queue_id = record.queue_id LIMIT 1) AS queue ON true
    LEFT JOIN LATERAL (SELECT client.name FROM telesto.clients AS client
                       WHERE client.client_id = record.sender_id LIMIT 1) AS sender ON true
    LEFT JOIN LATERAL (SELECT client.name FROM telesto.clients AS client
                       WHERE client.client_id = record.client_id LIMIT 1) AS reader ON true
    LEFT JOIN LATERAL (SELECT known.address FROM telesto.middleware_names AS known
                       WHERE known.middleware_id = record.put_through LIMIT 1) AS putting ON true
    LEFT JOIN LATERAL (SELECT known.address FROM telesto.middleware_names AS known
                       WHERE known.middleware_id = record.handed_over_through LIMIT 1) AS taking ON true
    CROSS JOIN LATERAL (SELECT telesto.may_see_directed(record.receiver_id, record.sender_id, asking_client, asking_user)
                               OR coalesce(telesto.name_matches(administered, queue.name), false) AS directed) AS shown
    WHERE in_queue = 0 OR record.queue_id = in_queue
    -- Where it is now comes last.
    ORDER BY record.state IN ('ready', 'delayed', 'handed_over', 'leased', 'dead_letter'), record.ended_at;
    IF NOT FOUND THEN
        error := :MESSAGE_NOT_EXISTING;
        complete := everywhere;
        RETURN NEXT;
    END IF;
END
$$;
