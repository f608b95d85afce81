-- Procedure:  list_dead_letters
-- Purpose:    Shows the dead letters of a queue by rising id. The queue may be gone.
-- Tables:     dead_letters, take_states, clients (read)
CREATE OR REPLACE FUNCTION telesto.list_dead_letters(
    from_queue bigint,        -- the queue
    after_message_id bigint,  -- the last letter of the page before; 0 for the first page
    max_rows int,             -- at most this many
    max_bytes bigint,         -- at most this many bytes of bodies; a first letter comes whatever its size
    asking_client bigint DEFAULT 0,    -- the client that asks
    asking_user bigint DEFAULT NULL,   -- its user; NULL for nobody
    directed boolean DEFAULT true      -- whether it may see all that is for one receiver; else see may_see_directed, and the
                              -- others are left out
)
RETURNS TABLE (
    error smallint,               -- NULL, or QUEUE_NOT_EXISTING in a single row: there is no such queue, and the first
                                  -- page would be empty
    message_id bigint,            -- the message
    queue_id bigint,              -- its queue
    sender_id bigint,             -- who put it
    receiver_id bigint,           -- the only client that may read it; 0 for anyone
    priority smallint,            -- 1 to 10
    time_of_arrival timestamptz,  -- when it was put
    attempt int,                  -- how often it was handed over
    redelivered boolean,          -- whether it came back after a hand-over
    context bigint,               -- connects request and response; NULL without
    body bytea,                   -- the content
    headers jsonb,                -- its headers, an object of texts; NULL without
    reason text,                  -- why it is dead
    died_at timestamptz,          -- since when
    client_id bigint,             -- who had it last; 0 for nobody
    partition_key text,           -- its partition's key; NULL without
    origin jsonb                  -- of a dead letter that was moved here: where and how it died; NULL without
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    IF after_message_id = 0
        AND NOT EXISTS (SELECT FROM telesto.take_states AS state WHERE state.queue_id = from_queue)
        AND NOT EXISTS (SELECT FROM telesto.dead_letters AS letter WHERE letter.queue_id = from_queue)
    THEN
        error := :QUEUE_NOT_EXISTING;
        RETURN NEXT;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT NULL::smallint, page.message_id, page.queue_id, page.sender_id, page.receiver_id, page.priority, page.time_of_arrival,
           page.attempt, page.redelivered, page.context, page.body, page.headers, page.reason, page.died_at,
           page.client_id,
           page.partition_key, page.origin
    FROM (SELECT letter.*, row_number() OVER position AS i,
                 sum(octet_length(letter.body) + coalesce(telesto.headers_bytes(letter.headers), 0))
                 OVER position AS bytes
          FROM (SELECT letter.* FROM telesto.dead_letters AS letter
                WHERE letter.queue_id = from_queue AND letter.message_id > after_message_id
                  AND (directed OR telesto.may_see_directed(letter.receiver_id, letter.sender_id, asking_client, asking_user))
                ORDER BY letter.message_id
                LIMIT max_rows) AS letter
          WINDOW position AS (ORDER BY letter.message_id ROWS UNBOUNDED PRECEDING)) AS page
    WHERE page.i = 1 OR page.bytes <= max_bytes
    ORDER BY page.message_id;
END
$$;
