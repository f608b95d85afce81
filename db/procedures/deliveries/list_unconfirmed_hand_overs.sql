-- Procedure:  list_unconfirmed_hand_overs
-- Purpose:    A page of the messages that were handed over to a client and that it has not confirmed. The
--             transaction writes, see session_error.
-- Tables:     clients, deliveries, queues (read)
CREATE OR REPLACE FUNCTION telesto.list_unconfirmed_hand_overs(
    of_client bigint,         -- the client
    current_session bigint,   -- its session
    after_session bigint,     -- the last row of the page before; 0 for the first page
    after_number bigint,      -- the last row of the page before; 0 for the first page
    after_message_id bigint,  -- the last row of the page before; 0 for the first page
    max_rows int,             -- at most this many
    max_bytes bigint,         -- at most this many bytes of bodies; a first message comes whatever its size
    readable text[] DEFAULT NULL  -- patterns of the queues of which the bodies may be shown; NULL for all. Those of a queue
                              -- that is gone are shown: nobody's rights on it can have changed since.
)
RETURNS TABLE (
    error smallint,               -- NULL, or in a single row CLIENT_NOT_EXISTING or SESSION_FENCED
    session bigint,               -- the session of the read
    number bigint,                -- the read's number
    message_id bigint,            -- the message
    queue_id bigint,              -- its queue
    sender_id bigint,             -- who put it
    receiver_id bigint,           -- the only client that may read it; 0 for anyone
    priority smallint,            -- 1 to 10
    time_of_arrival timestamptz,  -- when it was put
    attempt int,                  -- how often it has been handed over, this time included
    redelivered boolean,          -- whether it came back after a hand-over
    context bigint,               -- connects request and response; NULL without
    body bytea,                   -- the content
    headers jsonb,                -- its headers, an object of texts; NULL without
    origin jsonb,                 -- of a dead letter that was moved here: where and how it died; NULL without
    expires_ms bigint,            -- how long until it expires, in milliseconds; NULL for never
    denied boolean                -- its queue may not be read: neither body nor headers are shown
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    error := telesto.session_error(of_client, current_session);
    IF error IS NOT NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT NULL::smallint, page.session, page.number, page.message_id, page.queue_id, page.sender_id,
           page.receiver_id, page.priority, page.time_of_arrival, page.attempt, page.redelivered, page.context,
           CASE WHEN NOT page.denied THEN page.body END, CASE WHEN NOT page.denied THEN page.headers END, page.origin,
           telesto.life_left(page.expires_at, clock_timestamp()), page.denied
    FROM (SELECT delivery.*, row_number() OVER position AS i,
                 sum(CASE WHEN delivery.denied THEN 0
                          ELSE octet_length(delivery.body) + coalesce(telesto.headers_bytes(delivery.headers), 0) END)
                 OVER position AS bytes
          FROM (SELECT delivery.*,
                       readable IS NOT NULL
                       AND EXISTS (SELECT FROM telesto.queues AS queue
                                   WHERE queue.queue_id = delivery.queue_id
                                     AND NOT telesto.name_matches(readable, queue.name)) AS denied
                FROM telesto.deliveries AS delivery
                WHERE delivery.client_id = of_client
                  AND (delivery.session, delivery.number, delivery.message_id)
                      > (after_session, after_number, after_message_id)
                ORDER BY delivery.client_id, delivery.session, delivery.number, delivery.message_id
                LIMIT max_rows) AS delivery
          WINDOW position AS (ORDER BY delivery.session, delivery.number, delivery.message_id
                              ROWS UNBOUNDED PRECEDING)) AS page
    WHERE page.i = 1 OR page.bytes <= max_bytes
    ORDER BY page.session, page.number, page.message_id;
END
$$;
