-- Procedure:  refused_takes
-- Purpose:    The rows of take_batch for the reads that get an error.
-- Errors:     none raised
-- Locks:      none
-- Tables:     none
CREATE OR REPLACE FUNCTION telesto.refused_takes(
    verdicts smallint[],  -- per request: NULL, or its error
    related_ids bigint[]  -- per request: what the error is about
)
RETURNS TABLE (
    request int,                  -- the request, counted from 1; one without a row found nothing
    error smallint,               -- NULL with a message; else -1 (not executed, try again), CLIENT_NOT_EXISTING (5),
                                  -- QUEUE_NOT_EXISTING (7), SESSION_FENCED (20) or MESSAGE_TOO_LARGE (26)
    related_id bigint,            -- the message that is too large, with error 26
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
    origin jsonb,                 -- of a dead letter that was moved here: where and how it died; NULL without
    expires_ms bigint             -- how long until it expires, in milliseconds; NULL for never
)
LANGUAGE plpgsql
AS $$
BEGIN
    FOR r IN 1..cardinality(verdicts) LOOP
        IF verdicts[r] IS NOT NULL THEN
            request := r;
            error := verdicts[r];
            related_id := related_ids[r];
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;
