-- Procedure:  fence_requests
-- Purpose:    The fence of a batch: locks its clients and finds the requests of sessions that are over.
--             Trying the locks and reading the sessions are two statements, so that the second sees what a
--             takeover committed while the first was under way.
-- Errors:     invalid_transaction_state (25000) outside READ COMMITTED
-- Locks:      clients (shared, try)
-- Tables:     clients (read)
CREATE OR REPLACE FUNCTION telesto.fence_requests(
    client_ids bigint[],   -- the client of each request
    sessions bigint[],     -- the session of each request
    OUT passed bigint[],   -- the clients with a request that may go on, sorted
    OUT errors smallint[]  -- NULL when all requests may go on, else per request: NULL, BUSY (a takeover is under way),
                           -- CLIENT_NOT_EXISTING or SESSION_FENCED
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    fenced_clients bigint[];
    fenced_sessions bigint[];
    granted boolean[];
    current_count bigint;
BEGIN
    PERFORM telesto.require_read_committed();
    SELECT array_agg(pair.client_id), array_agg(pair.session),
           array_agg(pg_try_advisory_xact_lock_shared(telesto.client_lock_key(pair.client_id)))
    INTO fenced_clients, fenced_sessions, granted
    FROM (SELECT DISTINCT request.client_id, request.session
          FROM (SELECT unnest(client_ids) AS client_id, unnest(sessions) AS session) AS request
          ORDER BY request.client_id, request.session) AS pair;

    SELECT count(*)
    INTO current_count
    FROM (SELECT unnest(fenced_clients) AS client_id, unnest(fenced_sessions) AS session) AS pair
    CROSS JOIN LATERAL (SELECT FROM telesto.clients AS client
                        WHERE client.client_id = pair.client_id AND client.session = pair.session
                        LIMIT 1) AS client;

    IF current_count = cardinality(fenced_clients) AND NOT false = ANY (granted) THEN
        passed := fenced_clients;
        RETURN;
    END IF;

    SELECT array_agg(CASE WHEN NOT fence.granted THEN :BUSY
                          WHEN fence.session IS NULL THEN :CLIENT_NOT_EXISTING
                          WHEN fence.session <> request.session THEN :SESSION_FENCED
                     END ORDER BY request.i),
           array_agg(request.client_id ORDER BY request.client_id)
               FILTER (WHERE fence.granted AND fence.session = request.session)
    INTO errors, passed
    FROM unnest(client_ids, sessions) WITH ORDINALITY AS request (client_id, session, i)
    JOIN (SELECT pair.client_id, bool_and(pair.granted) AS granted, min(client.session) AS session
          FROM unnest(fenced_clients, granted) AS pair (client_id, granted)
          LEFT JOIN LATERAL (SELECT client.session FROM telesto.clients AS client
                             WHERE client.client_id = pair.client_id
                             LIMIT 1) AS client ON true
          GROUP BY pair.client_id) AS fence USING (client_id);
END
$$;
