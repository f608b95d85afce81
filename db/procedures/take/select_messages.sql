-- Procedure:  select_messages
-- Purpose:    Finds the messages that one read of take_selected_batch takes, in its order and within its limits.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     messages (read)
CREATE OR REPLACE FUNCTION telesto.select_messages(
    client_id bigint,                  -- who reads
    queue_id bigint,                   -- the queue
    max_messages int,                  -- how many messages at most
    max_bytes int,                     -- how many bytes of bodies at most
    sender_id bigint,                  -- only messages of this sender; 0 for any
    by_age boolean,                    -- the oldest first, whatever its priority; else the highest priority first
    context bigint,                    -- only the reader's own messages with this context; NULL for all
    upper bigint[],                    -- by priority, the id above which nothing was put
    common_lower bigint[],             -- the bounds of messages for anyone; NULL to leave those out
    own_lower bigint[],                -- the bounds of the reader's own messages; NULL to leave those out
    OUT message_rows tid[],            -- where the messages are
    OUT common_priorities smallint[],  -- the priorities of those of them that are for anyone
    OUT own_priorities smallint[],     -- the priorities of those that are for the reader alone
    OUT too_large bigint               -- the first message when it alone is beyond max_bytes; then nothing is taken
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    looked_at constant timestamptz := clock_timestamp();
BEGIN
    -- By priority the levels are scanned downwards and the outer LIMIT ends the scan; by age all levels are one
    -- level, whose heads are merged.
    WITH line AS (
        SELECT 0 AS receiver_id, generate_series(1, 10) AS priority, unnest(common_lower) AS lower
        WHERE common_lower IS NOT NULL
        UNION ALL
        SELECT select_messages.client_id, generate_series(1, 10), unnest(own_lower)
        WHERE own_lower IS NOT NULL
    ), candidate AS (
        SELECT message.*
        FROM generate_series(CASE WHEN by_age THEN 1 ELSE 10 END, 1, -1) AS level (priority)
        CROSS JOIN LATERAL (
            SELECT message.*
            FROM line
            CROSS JOIN LATERAL (SELECT message.ctid, message.receiver_id, message.priority, message.message_id,
                                       octet_length(message.body)
                                       + coalesce(telesto.headers_bytes(message.headers), 0) AS bytes
                                FROM telesto.messages AS message
                                WHERE message.queue_id = select_messages.queue_id
                                  AND message.receiver_id = line.receiver_id
                                  AND message.priority = line.priority
                                  AND message.message_id >= line.lower
                                  AND message.message_id <= upper[line.priority]
                                  AND (message.expires_at IS NULL OR message.expires_at > looked_at)
                                  AND select_messages.sender_id IN (0, message.sender_id)
                                  AND (select_messages.context IS NULL
                                       OR message.context = select_messages.context)
                                ORDER BY message.message_id
                                LIMIT max_messages) AS message
            WHERE (by_age OR line.priority = level.priority) AND line.lower <= upper[line.priority]
            ORDER BY message.message_id
            LIMIT max_messages) AS message
        LIMIT max_messages
    ), fitting AS (
        SELECT candidate.*, row_number() OVER position AS i, sum(candidate.bytes) OVER position AS total
        FROM candidate
        WINDOW position AS (ORDER BY CASE WHEN by_age THEN 0 ELSE candidate.priority END DESC,
                                     candidate.message_id ROWS UNBOUNDED PRECEDING)
    )
    SELECT array_agg(fitting.ctid) FILTER (WHERE fitting.total <= max_bytes),
           array_agg(fitting.priority) FILTER (WHERE fitting.total <= max_bytes AND fitting.receiver_id = 0),
           array_agg(fitting.priority) FILTER (WHERE fitting.total <= max_bytes AND fitting.receiver_id > 0),
           min(fitting.message_id) FILTER (WHERE fitting.i = 1 AND fitting.total > max_bytes)
    INTO message_rows, common_priorities, own_priorities, too_large
    FROM fitting;
END
$$;
