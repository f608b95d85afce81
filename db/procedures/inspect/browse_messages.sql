-- Procedure:  browse_messages
-- Purpose:    Shows the messages of a queue that a client may read, by rising id, without taking them.
-- Tables:     take_states, receiver_states, messages (read)
CREATE OR REPLACE FUNCTION telesto.browse_messages(
    client_id bigint,         -- the client
    from_queue bigint,        -- the queue
    after_message_id bigint,  -- the last message of the page before; 0 for the first page
    max_rows int,             -- at most this many
    max_bytes bigint          -- at most this many bytes of bodies; a first message comes whatever its size
)
RETURNS TABLE (
    error smallint,               -- NULL, or QUEUE_NOT_EXISTING in a single row
    message_id bigint,            -- the message
    queue_id bigint,              -- its queue
    sender_id bigint,             -- who put it
    receiver_id bigint,           -- the only client that may read it; 0 for anyone
    priority smallint,            -- 1 to 10
    time_of_arrival timestamptz,  -- when it was put
    attempt int,                  -- how often it has been handed over so far
    redelivered boolean,          -- whether it came back after a hand-over
    context bigint,               -- connects request and response; NULL without
    body bytea,                   -- the content
    headers jsonb,                -- its headers, an object of texts; NULL without
    origin jsonb                  -- of a dead letter that was moved here: where and how it died; NULL without
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    common_lower bigint[];
    own_lower bigint[];
    looked_at constant timestamptz := clock_timestamp();
BEGIN
    -- STABLE: one snapshot for all statements, so the bounds fit what is seen.
    SELECT state.lower INTO common_lower
    FROM telesto.take_states AS state
    WHERE state.queue_id = from_queue
    ORDER BY state.version DESC
    LIMIT 1;
    IF common_lower IS NULL THEN
        error := :QUEUE_NOT_EXISTING;
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT state.lower INTO own_lower
    FROM telesto.receiver_states AS state
    WHERE state.queue_id = from_queue AND state.receiver_id = browse_messages.client_id
    ORDER BY state.version DESC
    LIMIT 1;

    RETURN QUERY
    SELECT NULL::smallint, page.message_id, page.queue_id, page.sender_id, page.receiver_id, page.priority,
           page.time_of_arrival, page.attempt, page.redelivered, page.context, page.body, page.headers,
           page.origin
    FROM (SELECT message.*, row_number() OVER position AS i,
                 sum(octet_length(message.body) + coalesce(telesto.headers_bytes(message.headers), 0))
                 OVER position AS bytes
          FROM (SELECT message.*
                FROM (SELECT 0 AS receiver_id, generate_series(1, 10) AS priority, unnest(common_lower) AS lower
                      UNION ALL
                      SELECT browse_messages.client_id, generate_series(1, 10),
                             unnest(coalesce(own_lower, array_fill(0::bigint, ARRAY[10])))) AS line
                CROSS JOIN LATERAL (SELECT message.* FROM telesto.messages AS message
                                    WHERE message.queue_id = from_queue
                                      AND message.receiver_id = line.receiver_id
                                      AND message.priority = line.priority
                                      AND message.message_id >= greatest(line.lower, after_message_id + 1)
                                      AND (message.expires_at IS NULL OR message.expires_at > looked_at)
                                    ORDER BY message.message_id
                                    LIMIT max_rows) AS message
                ORDER BY message.message_id
                LIMIT max_rows) AS message
          WINDOW position AS (ORDER BY message.message_id ROWS UNBOUNDED PRECEDING)) AS page
    WHERE page.i = 1 OR page.bytes <= max_bytes
    ORDER BY page.message_id;
END
$$;
