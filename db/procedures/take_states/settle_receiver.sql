-- Procedure:  settle_receiver
-- Purpose:    Raises the lower bounds of a single reader after its messages were taken out of their order.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     receiver_states (insert, delete), messages (read)
CREATE OR REPLACE FUNCTION telesto.settle_receiver(
    queue_id bigint,     -- the queue
    receiver_id bigint,  -- the reader
    last_id bigint,      -- the queue's last id as read before the scan
    touched smallint[]   -- the priorities that messages were taken from
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    state record;
BEGIN
    SELECT state.ctid AS state_row, coalesce(state.version, 0) AS version,
           coalesce(state.lower, array_fill(1::bigint, ARRAY[10])) AS lower
    INTO state
    FROM (SELECT) AS always
    LEFT JOIN LATERAL (SELECT state.ctid, state.* FROM telesto.receiver_states AS state
                       WHERE state.queue_id = settle_receiver.queue_id
                         AND state.receiver_id = settle_receiver.receiver_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true;
    INSERT INTO telesto.receiver_states (queue_id, receiver_id, version, lower)
    VALUES (settle_receiver.queue_id, settle_receiver.receiver_id, state.version + 1,
            telesto.bounds_after(settle_receiver.queue_id, settle_receiver.receiver_id, state.lower,
                                 settle_receiver.last_id, touched));
    DELETE FROM telesto.receiver_states AS old WHERE old.ctid = state.state_row;
END
$$;
