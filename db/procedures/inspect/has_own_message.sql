-- Procedure:  has_own_message
-- Purpose:    Whether a queue holds a message that only this client may read.
-- Returns:
--   boolean                 whether it does
-- Tables:     receiver_states, messages (read)
CREATE OR REPLACE FUNCTION telesto.has_own_message(
    queue_id bigint,  -- the queue
    client_id bigint  -- the client
)
RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
BEGIN
    PERFORM
    FROM (SELECT) AS always
    LEFT JOIN LATERAL (SELECT state.lower FROM telesto.receiver_states AS state
                       WHERE state.queue_id = has_own_message.queue_id
                         AND state.receiver_id = has_own_message.client_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true
    CROSS JOIN generate_series(10, 1, -1) AS level (priority)
    CROSS JOIN LATERAL (SELECT FROM telesto.messages AS message
                        WHERE message.queue_id = has_own_message.queue_id
                          AND message.receiver_id = has_own_message.client_id
                          AND message.priority = level.priority
                          AND message.message_id >= coalesce(state.lower[level.priority], 0)
                          AND (message.expires_at IS NULL OR message.expires_at > clock_timestamp())
                        LIMIT 1) AS message
    LIMIT 1;
    RETURN FOUND;
END
$$;
