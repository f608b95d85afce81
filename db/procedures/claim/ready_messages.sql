-- Procedure:  ready_messages
-- Purpose:    Finds the first messages that wait for one receiver, or for anyone: the highest priority first, the
--             oldest first among equals.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     messages (read)
CREATE OR REPLACE FUNCTION telesto.ready_messages(
    from_queue bigint,          -- the queue
    for_receiver bigint,        -- the receiver; 0 for what is for anyone
    lower bigint[],             -- by priority, the id below which nothing waits
    upper bigint[],             -- by priority, the id above which nothing was put
    max_rows bigint,            -- at most this many
    OUT message_rows tid[],     -- where they are, in order; NULL when there are none
    OUT priorities smallint[],  -- their priorities
    OUT message_ids bigint[],   -- their ids
    OUT sizes int[],            -- the lengths of their bodies
    OUT failed boolean          -- whether some have failed before, so that who gets them matters
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    looked_at constant timestamptz := clock_timestamp();
BEGIN
    SELECT array_agg(message.ctid), array_agg(message.priority), array_agg(message.message_id),
           array_agg(message.bytes), count(message.failed_by) > 0
    INTO message_rows, priorities, message_ids, sizes, failed
    FROM (SELECT message.*
          FROM generate_series(10, 1, -1) AS level (priority)
          CROSS JOIN LATERAL (SELECT message.ctid, message.priority, message.message_id,
                                     octet_length(message.body)
                                     + coalesce(telesto.headers_bytes(message.headers), 0) AS bytes, message.failed_by
                              FROM telesto.messages AS message
                              WHERE message.queue_id = from_queue
                                AND message.receiver_id = for_receiver
                                AND message.priority = level.priority
                                AND message.message_id >= lower[level.priority]
                                AND message.message_id <= upper[level.priority]
                                AND (message.expires_at IS NULL OR message.expires_at > looked_at)
                              ORDER BY message.message_id
                              LIMIT max_rows) AS message
          WHERE lower[level.priority] <= upper[level.priority]
          LIMIT max_rows) AS message;
END
$$;
