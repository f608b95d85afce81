-- Type:       claimed_message
-- Purpose:    A row of a claim's answer: a message that was leased to a consumer, a refusal of one, or what else is to be
--             known of it or its queue.
CREATE TYPE telesto.claimed_message AS (
    kind text,                    -- 'message': one was leased; 'refused': the consumer gets nothing; 'more': the queue
                                  -- holds more, which was too large for now or is kept for other consumers; 'ready': the
                                  -- consumer's partitions hold more; 'ready_elsewhere': those of consumer_id do, which
                                  -- is not part of the call; 'unanswered': partitions wait until what is leased of them
                                  -- is answered; 'reached': puts have reached more partitions
    request int,                  -- the consumer, by its place in the arrays, counted from 1; NULL in a row about the
                                  -- queue
    error smallint,               -- with 'refused': BUSY (not executed, try again), CLIENT_NOT_EXISTING,
                                  -- QUEUE_NOT_EXISTING, SESSION_FENCED or CONSUMER_NOT_EXISTING
    consumer_id bigint,           -- with 'ready_elsewhere': the consumer
    lease_id bigint,              -- the lease
    message_id bigint,            -- the message; each consumer's come in their order
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
    claim_id bigint,              -- the claim, which rises from claim to claim
    partition_key text,           -- its partition's key; NULL without
    origin jsonb,                 -- of a dead letter that was moved here: where and how it died; NULL without
    expires_ms bigint             -- how long until it expires, in milliseconds; NULL for never
);
