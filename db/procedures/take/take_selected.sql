-- Procedure:  take_selected
-- Purpose:    One read of take_selected_batch.
-- Locks:      none; the caller holds the client's and the queue's
-- Tables:     put_states (read), take_states, receiver_states (insert, delete), messages (delete), deliveries
--             (insert)
CREATE OR REPLACE FUNCTION telesto.take_selected(
    request int,         -- the read, by its place in the batch
    client_id bigint,    -- who reads
    session bigint,      -- the session
    number bigint,       -- the request's number; 0 leaves no delivery
    from_queue bigint,   -- the queue
    max_messages int,    -- how many messages at most
    max_bytes int,       -- how many bytes of bodies at most
    from_sender bigint,  -- only messages of this sender; 0 for any
    mode smallint,       -- 1 by priority, 2 by age
    for_context bigint,  -- only messages for the reader alone with this context; NULL for all
    middleware_id int    -- through which middleware; NULL for none
)
RETURNS SETOF telesto.taken_message
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    by_age constant boolean := mode = 2;
    state record;
    own_lower bigint[];
    pick record;
    own_count bigint;
    refusal telesto.taken_message;
BEGIN
    refusal.request := take_selected.request;
    -- The put state is read before the scan, so that all up to its last id is visible to it.
    SELECT taken.ctid AS state_row, taken.version, taken.total, taken.directed_total, taken.hidden_total, taken.lower,
           put.last_id, put.upper, (put.total - put.hidden_total) - (taken.total - taken.hidden_total) AS depth,
           put.directed_total - taken.directed_total AS own_depth
    INTO state
    FROM (SELECT taken.ctid, taken.* FROM telesto.take_states AS taken
          WHERE taken.queue_id = from_queue
          ORDER BY taken.version DESC
          LIMIT 1) AS taken
    CROSS JOIN LATERAL (SELECT put.* FROM telesto.put_states AS put
                        WHERE put.queue_id = from_queue
                        ORDER BY put.version DESC
                        LIMIT 1) AS put;
    IF NOT FOUND THEN
        refusal.error := :QUEUE_NOT_EXISTING;
        RETURN NEXT refusal;
        RETURN;
    END IF;
    IF state.own_depth > 0 THEN
        own_lower := coalesce((SELECT own.lower FROM telesto.receiver_states AS own
                               WHERE own.queue_id = from_queue AND own.receiver_id = take_selected.client_id
                               ORDER BY own.version DESC
                               LIMIT 1), array_fill(1::bigint, ARRAY[10]));
    END IF;

    SELECT selected.* INTO pick
    FROM telesto.select_messages(
        take_selected.client_id, from_queue, max_messages, max_bytes, from_sender, by_age, for_context, state.upper,
        CASE WHEN for_context IS NULL AND state.depth > state.own_depth THEN state.lower END,
        own_lower) AS selected;
    IF pick.too_large IS NOT NULL THEN
        refusal.error := :MESSAGE_TOO_LARGE;
        refusal.related_id := pick.too_large;
        RETURN NEXT refusal;
        RETURN;
    ELSIF pick.message_rows IS NULL THEN
        RETURN;
    END IF;

    RETURN QUERY
    SELECT take_selected.request, taken.error, taken.related_id, taken.message_id, taken.queue_id, taken.sender_id,
           taken.receiver_id, taken.priority, taken.time_of_arrival, taken.attempt, taken.redelivered, taken.context,
           taken.body, taken.headers, taken.origin, taken.expires_ms
    FROM telesto.hand_over(pick.message_rows, array_fill(1, ARRAY[cardinality(pick.message_rows)]),
                           ARRAY[take_selected.client_id], ARRAY[take_selected.session],
                           ARRAY[take_selected.number], middleware_id) AS taken
    ORDER BY CASE WHEN by_age THEN 0 ELSE taken.priority END DESC, taken.message_id;

    own_count := coalesce(cardinality(pick.own_priorities), 0);
    INSERT INTO telesto.take_states (queue_id, version, total, directed_total, hidden_total, lower)
    VALUES (from_queue, state.version + 1, state.total + cardinality(pick.message_rows),
            state.directed_total + own_count, state.hidden_total,
            telesto.bounds_after(from_queue, 0, state.lower, state.last_id,
                                 pick.common_priorities));
    DELETE FROM telesto.take_states AS old WHERE old.ctid = state.state_row;
    -- As in advance_receivers: now and then is enough.
    IF own_count > 0 AND (own_count >= 16 OR random() * 16 < 1) THEN
        PERFORM telesto.settle_receiver(from_queue, take_selected.client_id, state.last_id, pick.own_priorities);
    END IF;
END
$$;
