-- Procedure:  take_responses
-- Purpose:    The fast path of take_selected_batch, when all reads ask for responses: they do not get into each
--             other's way, so that they are looked up together.
-- Locks:      none; the caller holds the clients' and the queues'
-- Tables:     put_states (read), take_states, receiver_states (insert, delete), messages (delete), deliveries
--             (insert)
CREATE OR REPLACE FUNCTION telesto.take_responses(
    client_ids bigint[],        -- per request: who reads
    sessions bigint[],          -- per request: the session
    numbers bigint[],           -- per request: its number; 0 leaves no delivery
    queue_ids bigint[],         -- per request: the queue
    max_messages int[],         -- per request: how many messages at most
    max_bytes int[],            -- per request: how many bytes of bodies at most
    contexts bigint[],          -- per request: the context of the messages for the reader alone
    request_errors smallint[],  -- per request: the fence's verdict; NULL when all passed
    queues bigint[],            -- the distinct queues of requests that passed, sorted
    granted boolean[],          -- per queue: whether its take lock is held
    middleware_id int           -- through which middleware
)
RETURNS SETOF telesto.taken_message
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    state_rows tid[];
    existing boolean[];
    last_ids bigint[];
    uppers bigint[];
    own_depths bigint[];
    plan record;
BEGIN
    -- The put states are read before the scan, so that all up to last_ids is visible to it.
    SELECT array_agg(taken.ctid), array_agg(taken.ctid IS NOT NULL), array_agg(put.last_id),
           array_agg(coalesce(put.upper, array_fill(0::bigint, ARRAY[10]))),
           array_agg(put.directed_total - taken.directed_total)
    INTO state_rows, existing, last_ids, uppers, own_depths
    FROM (SELECT unnest(queues) AS queue_id) AS queue
    LEFT JOIN LATERAL (SELECT taken.ctid, taken.directed_total FROM telesto.take_states AS taken
                       WHERE taken.queue_id = queue.queue_id
                       ORDER BY taken.version DESC
                       LIMIT 1) AS taken ON true
    LEFT JOIN LATERAL (SELECT put.directed_total, put.last_id, put.upper FROM telesto.put_states AS put
                       WHERE put.queue_id = queue.queue_id
                       ORDER BY put.version DESC
                       LIMIT 1) AS put ON true;
    SELECT planned.* INTO plan
    FROM telesto.plan_takes(client_ids, queue_ids, max_messages, max_bytes, request_errors, queues, granted,
                            existing, own_depths, uppers, contexts, NULL, NULL, NULL, NULL, NULL) AS planned;

    RETURN QUERY
    SELECT refused.* FROM telesto.refused_takes(plan.verdicts, plan.related_ids) AS refused;
    IF plan.pick_ids IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT taken.*
    FROM telesto.hand_over(plan.pick_rows, plan.pick_requests, client_ids, sessions, numbers, middleware_id) AS taken
    ORDER BY taken.request, taken.priority DESC, taken.message_id;

    PERFORM telesto.advance_takes(state_rows, last_ids, plan.pick_queues, plan.pick_readers, plan.pick_priorities,
                                  plan.pick_ids);
    -- As in advance_receivers: now and then is enough.
    PERFORM telesto.settle_receiver(queues[reader.queue], reader.reader, last_ids[reader.queue], reader.priorities)
    FROM (SELECT pick.queue, pick.reader, array_agg(pick.priority) AS priorities
          FROM (SELECT unnest(plan.pick_queues) AS queue, unnest(plan.pick_readers) AS reader,
                       unnest(plan.pick_priorities) AS priority) AS pick
          GROUP BY pick.queue, pick.reader
          HAVING count(*) >= 16 OR random() * 16 < 1) AS reader;
END
$$;
