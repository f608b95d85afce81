-- Procedure:  plan_takes
-- Purpose:    Decides who takes what where that is not plain: when a read is refused or busy, when bodies may
--             not fit, when there may be messages for single readers, when responses are asked for.
-- Locks:      none; the caller holds the clients' and the queues'
-- Tables:     messages, receiver_states (read)
CREATE OR REPLACE FUNCTION telesto.plan_takes(
    client_ids bigint[],             -- per request: who reads
    queue_ids bigint[],              -- per request: the queue
    max_messages int[],              -- per request: how many messages at most
    max_bytes int[],                 -- per request: how many bytes of bodies at most
    request_errors smallint[],       -- per request: the fence's verdict; NULL when all passed
    queues bigint[],                 -- the distinct queues of requests that passed, sorted
    granted boolean[],               -- per queue: whether its take lock is held
    existing boolean[],              -- per queue: whether it exists
    own_depths bigint[],             -- per queue: how many messages wait for single readers
    uppers bigint[],                 -- per queue and priority: the id above which nothing was put
    contexts bigint[],               -- per request: only own messages with this context; NULL for all
    common_queues int[],             -- per message for anyone: the index of its queue, ascending
    common_priorities smallint[],    -- its priority
    common_ids bigint[],             -- its id; each queue's messages in their order
    common_bytes int[],              -- the length of its body
    common_rows tid[],               -- where it is
    OUT verdicts smallint[],         -- per request: NULL, or the error as take_batch answers it
    OUT related_ids bigint[],        -- per request: the message that is too large, else NULL
    OUT pick_requests int[],         -- per message taken: who takes it
    OUT pick_queues int[],           -- the index of its queue
    OUT pick_priorities smallint[],  -- its priority
    OUT pick_ids bigint[],           -- its id
    OUT pick_rows tid[],             -- where it is
    OUT pick_readers bigint[]        -- the reader that it is for; 0 for anyone
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    request_queues int[];
    request_pairs int[];
    pair_queues int[];
    pair_clients bigint[];
    pair_wanted bigint[];
    pair_contexts bigint[];
    own_pairs int[];
    own_priorities smallint[];
    own_ids bigint[];
    own_bytes int[];
    own_rows tid[];
    picks int[];
    looked_at constant timestamptz := clock_timestamp();
BEGIN
    verdicts := telesto.judge_takes(client_ids, request_errors, queue_ids, queues, granted, existing);

    SELECT array_agg(read.queue ORDER BY read.i), array_agg(read.pair ORDER BY read.i)
    INTO request_queues, request_pairs
    FROM (SELECT read.i, telesto.sorted_index(read.queue_id, queues) AS queue,
                 dense_rank() OVER (ORDER BY read.queue_id, read.client_id, read.context)::int AS pair
          FROM (SELECT unnest(queue_ids) AS queue_id, unnest(client_ids) AS client_id, unnest(contexts) AS context,
                       generate_series(1, cardinality(queue_ids)) AS i) AS read) AS read;

    SELECT array_agg(pair.pair), array_agg(pair.queue), array_agg(pair.client_id), array_agg(pair.context),
           array_agg(pair.wanted)
    INTO own_pairs, pair_queues, pair_clients, pair_contexts, pair_wanted
    FROM (SELECT read.pair, read.queue, read.client_id, read.context, sum(read.max_messages) AS wanted
          FROM (SELECT unnest(request_pairs) AS pair, unnest(request_queues) AS queue,
                       unnest(client_ids) AS client_id, unnest(contexts) AS context,
                       unnest(max_messages) AS max_messages, unnest(verdicts) AS verdict) AS read
          WHERE read.verdict IS NULL AND own_depths[read.queue] > 0
          GROUP BY read.pair, read.queue, read.client_id, read.context
          ORDER BY read.pair) AS pair;

    SELECT array_agg(own.pair), array_agg(own.priority), array_agg(own.message_id), array_agg(own.bytes),
           array_agg(own.ctid)
    INTO own_pairs, own_priorities, own_ids, own_bytes, own_rows
    FROM (SELECT pair.pair, own.*
          FROM (SELECT unnest(own_pairs) AS pair, unnest(pair_queues) AS queue, unnest(pair_clients) AS client_id,
                       unnest(pair_contexts) AS context, unnest(pair_wanted) AS wanted) AS pair
          LEFT JOIN LATERAL (SELECT state.lower FROM telesto.receiver_states AS state
                             WHERE state.queue_id = queues[pair.queue] AND state.receiver_id = pair.client_id
                             ORDER BY state.version DESC
                             LIMIT 1) AS state ON true
          CROSS JOIN LATERAL (SELECT message.*
                              FROM generate_series(10, 1, -1) AS level (priority)
                              CROSS JOIN LATERAL (
                                  SELECT message.priority, message.message_id, message.ctid,
                                         octet_length(message.body)
                                         + coalesce(telesto.headers_bytes(message.headers), 0) AS bytes
                                  FROM telesto.messages AS message
                                  WHERE message.queue_id = queues[pair.queue]
                                    AND message.receiver_id = pair.client_id
                                    AND message.priority = level.priority
                                    AND message.message_id >= coalesce(state.lower[level.priority], 1)
                                    AND message.message_id <= uppers[pair.queue][level.priority]
                                    AND (pair.context IS NULL OR message.context = pair.context)
                                    AND (message.expires_at IS NULL OR message.expires_at > looked_at)
                                  ORDER BY message.message_id
                                  LIMIT pair.wanted) AS message
                              WHERE coalesce(state.lower[level.priority], 1)
                                    <= uppers[pair.queue][level.priority]
                              LIMIT pair.wanted) AS own) AS own;

    SELECT assigned.verdicts, assigned.related_ids, assigned.picks, assigned.pick_requests
    INTO verdicts, related_ids, picks, pick_requests
    FROM telesto.assign_takes(verdicts, max_messages, max_bytes, request_queues, request_pairs,
                              common_queues, common_priorities, common_ids, common_bytes,
                              own_pairs, own_priorities, own_ids, own_bytes) AS assigned;

    SELECT array_agg(request_queues[pick.request]),
           array_agg(CASE WHEN pick.i > 0 THEN common_priorities[pick.i] ELSE own_priorities[-pick.i] END),
           array_agg(CASE WHEN pick.i > 0 THEN common_ids[pick.i] ELSE own_ids[-pick.i] END),
           array_agg(CASE WHEN pick.i > 0 THEN common_rows[pick.i] ELSE own_rows[-pick.i] END),
           array_agg(CASE WHEN pick.i > 0 THEN 0 ELSE client_ids[pick.request] END)
    INTO pick_queues, pick_priorities, pick_ids, pick_rows, pick_readers
    FROM (SELECT unnest(picks) AS i, unnest(pick_requests) AS request) AS pick;
END
$$;
