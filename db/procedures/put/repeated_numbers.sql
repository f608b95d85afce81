-- Procedure:  repeated_numbers
-- Purpose:    Tells which requests of a batch have a number that was used before, in their session or earlier
--             in the batch.
-- Returns:
--   boolean[]               per request
-- Locks:      none; the caller holds the clients'
-- Tables:     operations (read)
CREATE OR REPLACE FUNCTION telesto.repeated_numbers(
    client_ids bigint[],  -- per request: who asks
    sessions bigint[],    -- per request: the session
    numbers bigint[]      -- per request: its number; 0, which leaves no record, is never repeated
)
RETURNS boolean[]
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    repeated boolean[];
BEGIN
    SELECT array_agg(request.nth > 1 OR recorded.yes IS NOT NULL ORDER BY request.i)
    INTO repeated
    FROM (SELECT request.*, CASE WHEN request.number = 0 THEN 1 ELSE row_number()
                 OVER (PARTITION BY request.client_id, request.session, request.number ORDER BY request.i)
                 END AS nth
          FROM unnest(client_ids, sessions, numbers)
               WITH ORDINALITY AS request (client_id, session, number, i)) AS request
    LEFT JOIN LATERAL (SELECT true AS yes FROM telesto.operations AS operation
                       WHERE operation.client_id = request.client_id
                         AND operation.session = request.session
                         AND operation.number = request.number
                       LIMIT 1) AS recorded ON true;
    RETURN repeated;
END
$$;
