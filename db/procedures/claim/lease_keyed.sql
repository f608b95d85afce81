-- Procedure:  lease_keyed
-- Purpose:    Moves messages of partitions to the consumers that get them, in one statement: from keyed_messages to
--             leases.
-- Locks:      none; the caller holds the queue's
-- Tables:     keyed_messages (delete), leases (insert)
CREATE OR REPLACE FUNCTION telesto.lease_keyed(
    message_rows tid[],       -- per message: where it is
    message_requests int[],   -- per message: the consumer that gets it, by its place in the arrays, counted from 1
    message_leases bigint[],  -- per message: its lease
    consumer_ids bigint[],    -- the consumers
    client_ids bigint[],      -- their clients
    middleware_ids int[],     -- through which middleware each consumes
    claim bigint,             -- the claim, never used before
    lease_ms int              -- how long the leases hold, in milliseconds
)
RETURNS SETOF telesto.claimed_message
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moment constant timestamptz := clock_timestamp();
    deadline constant timestamptz := moment + make_interval(secs => lease_ms / 1000.0);
BEGIN
    RETURN QUERY
    WITH claimed AS (
        DELETE FROM telesto.keyed_messages AS message
        USING (SELECT unnest(message_rows) AS message_row, unnest(message_requests) AS request,
                      unnest(message_leases) AS lease_id) AS pick
        WHERE message.ctid = pick.message_row
        RETURNING pick.request, pick.lease_id, message.*
    ), leased AS (
        INSERT INTO telesto.leases (consumer_id, lease_id, message_id, queue_id, client_id, receiver_id, sender_id,
                                    context, time_of_arrival, deadline, attempt, priority, redelivered, body, headers,
                                    expires_at, claim_id, partition_key, history, put_through, handed_over_at,
                                    handed_over_through, origin, failed_by)
        SELECT consumer_ids[claimed.request], claimed.lease_id, claimed.message_id, claimed.queue_id,
               client_ids[claimed.request], 0, claimed.sender_id, claimed.context, claimed.time_of_arrival, deadline,
               claimed.attempt + 1, claimed.priority, claimed.redelivered, claimed.body, claimed.headers,
               claimed.expires_at, claim,
               claimed.partition_key, claimed.history, claimed.put_through, moment, middleware_ids[claimed.request],
               claimed.origin, claimed.failed_by
        FROM claimed
    )
    SELECT 'message', claimed.request, NULL::smallint, NULL::bigint, claimed.lease_id, claimed.message_id, claimed.queue_id,
           claimed.sender_id, 0::bigint, claimed.priority, claimed.time_of_arrival, claimed.attempt + 1,
           claimed.redelivered, claimed.context, claimed.body, claimed.headers, claim, claimed.partition_key,
           claimed.origin, telesto.life_left(claimed.expires_at, moment)
    FROM claimed;
END
$$;
