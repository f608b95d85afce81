-- Type:       fetched_message
-- Purpose:    A row of the answer to gets from topics: a message, a refusal, or the topics of a get that found nothing.
CREATE TYPE telesto.fetched_message AS (
    request int,                  -- the get, counted from 1; one that only confirms has no row when done
    error smallint,               -- NULL; or BUSY (not executed, try again), CLIENT_NOT_EXISTING, SESSION_FENCED,
                                  -- MESSAGE_TOO_LARGE, NOT_SUBSCRIBED, POSITION_UNKNOWN or SUBSCRIPTION_DROPPED
    related_id bigint,            -- the number of the message that is too large; with POSITION_UNKNOWN the topic's last
                                  -- number; with SUBSCRIPTION_DROPPED the subscription
    topic_ids bigint[],           -- in the only row of a get that found nothing: the topics that it is for
    subscription_id bigint,       -- the subscription by which a message comes
    topic text,                   -- its topic, unless the get named the subscription
    number bigint,                -- its number
    sender_id bigint,             -- who put it
    time_of_arrival timestamptz,  -- when it was put
    body bytea,                   -- the content
    headers jsonb                 -- its headers, an object of texts; NULL without
);
