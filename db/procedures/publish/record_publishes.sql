-- Procedure:  record_publishes
-- Purpose:    Leaves the result of each executed put to a topic in operations, until the client confirms it.
--             Numbers of a topic must have no gap, so a request whose own number is there already has to be
--             known before they are drawn. Where nothing else is unusual that is found out by the primary
--             key, so that it costs nothing when no number is repeated.
-- Returns:
--   boolean                    false when a number is repeated: nothing is recorded then, for any request
-- Locks:      none; the caller holds the clients'
-- Tables:     operations (insert)
CREATE OR REPLACE FUNCTION telesto.record_publishes(
    client_ids bigint[],      -- per request: who puts
    sessions bigint[],        -- per request: the session
    numbers bigint[],         -- per request: its number; 0 leaves no record
    element_requests int[],   -- per message: its request
    errors smallint[],        -- per message: its verdict; NULL when all are done
    message_numbers bigint[]  -- per message: its result; negative for a duplicate, 0 for one without a known number
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    method constant smallint := :PUT_TO_TOPIC;
BEGIN
    IF errors IS NULL AND element_requests = ARRAY(SELECT generate_series(1, cardinality(numbers))) THEN
        INSERT INTO telesto.operations (client_id, session, number, method_id, related_ids)
        SELECT request.client_id, request.session, request.number, method, ARRAY[request.result]
        FROM (SELECT unnest(client_ids) AS client_id, unnest(sessions) AS session, unnest(numbers) AS number,
                     unnest(message_numbers) AS result) AS request
        WHERE request.number <> 0;
        RETURN true;
    END IF;
    -- A gap is a result too; what was not executed leaves nothing.
    INSERT INTO telesto.operations (client_id, session, number, method_id, related_ids, errors)
    SELECT client_ids[request.i], sessions[request.i], numbers[request.i], method, request.results,
           request.errors
    FROM (SELECT element.request AS i, array_agg(element.result ORDER BY element.i) AS results,
                 CASE WHEN count(element.error) > 0 THEN array_agg(element.error ORDER BY element.i) END AS errors
          FROM unnest(element_requests, message_numbers, errors)
               WITH ORDINALITY AS element (request, result, error, i)
          GROUP BY element.request
          HAVING bool_and(element.error IS NULL OR element.error = :SEQUENCE_GAP)) AS request
    WHERE numbers[request.i] <> 0;
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    RETURN false;
END
$$;
