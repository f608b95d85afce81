-- Type:       taken_message
-- Purpose:    A row of what reads return: a message that was taken, or why a read gets none.
CREATE TYPE telesto.taken_message AS (
    request int,                  -- the read, counted from 1; one without a row found nothing
    error smallint,               -- NULL with a message; else BUSY (not executed, try again), CLIENT_NOT_EXISTING,
                                  -- QUEUE_NOT_EXISTING, SESSION_FENCED or MESSAGE_TOO_LARGE
    related_id bigint,            -- the message that is too large, with MESSAGE_TOO_LARGE
    message_id bigint,            -- the message; each read's come in their order
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
    expires_ms bigint             -- how long until it expires, in milliseconds; NULL for never
);
