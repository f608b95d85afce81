-- Procedure:  claim_message
-- Purpose:    Takes one message for a SQL user, as a part of the caller's transaction: its commit is the
--             confirmation, its rollback puts the message back. Leaves no record and takes no fence.
-- Parameters:
--   reader_id bigint        the client who reads
--   from_queue bigint       the queue
--   from_sender bigint      only messages of this client; 0 for any
--   for_context bigint      only messages for the reader alone that carry this; NULL for any
--   by_age boolean          the oldest first, whatever its priority; else the highest priority first
-- Returns:
--   message_id bigint       the message; no row when there is none
--   queue_id bigint         its queue
--   sender_id bigint        who put it
--   receiver_id bigint      the only client that may read it; 0 for anyone
--   priority smallint       1 to 10
--   time_of_arrival timestamptz   when it was put
--   attempt int             how often it has been handed over, this time included
--   redelivered boolean     whether it came back after a hand-over
--   context bigint          connects request and response; NULL without
--   body bytea              the content
-- Errors:     TL005 CLIENT_NOT_EXISTING, TL007 QUEUE_NOT_EXISTING, invalid_transaction_state (25000) outside
--             READ COMMITTED
-- Locks:      queue's take lock (wait), to the end of the caller's transaction
-- Tables:     clients, put_states (read), messages (delete), take_states, receiver_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.claim_message(
    reader_id bigint,
    from_queue bigint,
    from_sender bigint,
    for_context bigint,
    by_age boolean
)
RETURNS TABLE (
    message_id bigint,
    queue_id bigint,
    sender_id bigint,
    receiver_id bigint,
    priority smallint,
    time_of_arrival timestamptz,
    attempt int,
    redelivered boolean,
    context bigint,
    body bytea
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    filtered constant boolean := from_sender <> 0 OR for_context IS NOT NULL;
    state record;
    pick record;
BEGIN
    PERFORM telesto.require_read_committed();
    PERFORM telesto.require_client(reader_id, false);
    PERFORM pg_advisory_xact_lock(telesto.take_lock_key(from_queue));

    -- The put state is read before the scan, so that all up to its last id is visible to it.
    SELECT taken.ctid AS state_row, taken.version, taken.total, taken.directed_total, taken.lower, put.last_id
    INTO state
    FROM (SELECT taken.ctid, taken.* FROM telesto.take_states AS taken
          WHERE taken.queue_id = from_queue
          ORDER BY taken.version DESC
          LIMIT 1) AS taken
    CROSS JOIN LATERAL (SELECT put.last_id FROM telesto.put_states AS put
                        WHERE put.queue_id = from_queue
                        ORDER BY put.version DESC
                        LIMIT 1) AS put;
    IF state.version IS NULL THEN
        PERFORM telesto.raise_error(7, format('there is no queue %s', coalesce(from_queue::text, 'NULL')));
    END IF;

    SELECT message.ctid AS message_row, message.receiver_id, message.priority, message.message_id
    INTO pick
    FROM (SELECT 0 AS receiver_id, state.lower AS lower WHERE for_context IS NULL
          UNION ALL
          SELECT reader_id, (SELECT own.lower FROM telesto.receiver_states AS own
                             WHERE own.queue_id = from_queue AND own.receiver_id = reader_id
                             ORDER BY own.version DESC
                             LIMIT 1)) AS line
    CROSS JOIN generate_series(10, 1, -1) AS level (priority)
    CROSS JOIN LATERAL (SELECT message.ctid, message.receiver_id, message.priority, message.message_id
                        FROM telesto.messages AS message
                        WHERE message.queue_id = from_queue
                          AND message.receiver_id = line.receiver_id
                          AND message.priority = level.priority
                          AND message.message_id >= coalesce(line.lower[level.priority], 0)
                          AND from_sender IN (0, message.sender_id)
                          AND (for_context IS NULL OR message.context = for_context)
                        ORDER BY message.message_id
                        LIMIT 1) AS message
    ORDER BY CASE WHEN NOT by_age THEN message.priority END DESC, message.message_id
    LIMIT 1;
    IF pick.message_id IS NULL THEN
        RETURN;
    END IF;

    RETURN QUERY
    DELETE FROM telesto.messages AS message
    WHERE message.ctid = pick.message_row
    RETURNING message.message_id, message.queue_id, message.sender_id, message.receiver_id, message.priority,
              message.time_of_arrival, message.attempt + 1, message.redelivered, message.context, message.body;

    INSERT INTO telesto.take_states (queue_id, version, total, directed_total, lower)
    VALUES (from_queue, state.version + 1, state.total + 1,
            state.directed_total + (pick.receiver_id <> 0)::int,
            CASE WHEN filtered OR pick.receiver_id <> 0 THEN state.lower
                 WHEN by_age THEN state.lower[:pick.priority - 1] || pick.message_id + 1
                                  || state.lower[pick.priority + 1:]
                 ELSE telesto.next_bounds(state.lower, state.last_id, pick.priority, pick.message_id) END);
    DELETE FROM telesto.take_states AS taken WHERE taken.ctid = state.state_row;
    IF pick.receiver_id <> 0 AND NOT filtered AND NOT by_age THEN
        PERFORM telesto.advance_receivers(ARRAY[from_queue], ARRAY[state.last_id], ARRAY[1],
                                          ARRAY[pick.receiver_id], ARRAY[pick.priority], ARRAY[pick.message_id]);
    END IF;
END
$$;
