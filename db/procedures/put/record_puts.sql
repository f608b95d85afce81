-- Procedure:  record_puts
-- Purpose:    Leaves the result of each executed put request in operations, until the client confirms it. A
--             number that is there already is found out by the primary key, so that it costs nothing when
--             none is; its elements are taken back from the results.
-- Locks:      none; the caller holds the clients'
-- Tables:     operations (insert, read)
CREATE OR REPLACE FUNCTION telesto.record_puts(
    client_ids bigint[],        -- per request: who puts
    sessions bigint[],          -- per request: the session
    numbers bigint[],           -- per request: its number; 0 leaves no record
    method_ids smallint[],      -- per request: the packet
    element_requests int[],     -- per element: its request
    INOUT errors smallint[],    -- the verdicts; on return NUMBER_REPEATED added
    INOUT message_ids bigint[]  -- the ids; on return those that remain
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    request_count constant int := cardinality(numbers);
    repeated int[];
BEGIN
    IF errors IS NULL THEN
        -- The usual case. A subtransaction for the batch is cheaper than ON CONFLICT for each row, which looks
        -- the key up twice and logs every row twice.
        BEGIN
            IF element_requests = ARRAY(SELECT generate_series(1, request_count)) THEN
                INSERT INTO telesto.operations (client_id, session, number, method_id, related_ids)
                SELECT request.client_id, request.session, request.number, request.method_id,
                       ARRAY[request.message_id]
                FROM (SELECT unnest(client_ids) AS client_id, unnest(sessions) AS session,
                             unnest(numbers) AS number, unnest(method_ids) AS method_id,
                             unnest(message_ids) AS message_id) AS request
                WHERE request.number <> 0;
            ELSE
                -- The elements of a request stand next to each other.
                INSERT INTO telesto.operations (client_id, session, number, method_id, related_ids)
                SELECT client_ids[request.i], sessions[request.i], numbers[request.i], method_ids[request.i],
                       message_ids[request.first:request.last]
                FROM (SELECT element.request AS i, min(element.position) AS first, max(element.position) AS last
                      FROM (SELECT unnest(element_requests) AS request,
                                   generate_series(1, cardinality(element_requests)) AS position) AS element
                      GROUP BY element.request) AS request
                WHERE numbers[request.i] <> 0;
            END IF;
            RETURN;
        EXCEPTION WHEN unique_violation THEN
            -- Some number is repeated: below.
        END;
    END IF;

    -- Refusals for good are results too; what was not executed leaves nothing.
    INSERT INTO telesto.operations (client_id, session, number, method_id, related_ids, errors)
    SELECT client_ids[request.i], sessions[request.i], numbers[request.i], method_ids[request.i],
           request.message_ids, request.errors
    FROM (SELECT element.request AS i, array_agg(element.message_id ORDER BY element.i) AS message_ids,
                 CASE WHEN count(element.error) > 0 THEN array_agg(element.error ORDER BY element.i) END
                     AS errors
          FROM unnest(element_requests, message_ids, errors)
               WITH ORDINALITY AS element (request, message_id, error, i)
          GROUP BY element.request
          HAVING bool_and(element.error IS NULL OR element.error IN (:QUEUE_NOT_EXISTING, :QUEUE_FULL))) AS request
    WHERE numbers[request.i] <> 0
    ON CONFLICT DO NOTHING;

    -- Ids are drawn once and never again: a row with other ids is not the one just inserted.
    SELECT array_agg(request.i)
    INTO repeated
    FROM (SELECT element.request AS i, array_agg(element.message_id ORDER BY element.i) AS message_ids
          FROM unnest(element_requests, message_ids) WITH ORDINALITY AS element (request, message_id, i)
          GROUP BY element.request) AS request
    CROSS JOIN LATERAL (SELECT operation.related_ids FROM telesto.operations AS operation
                        WHERE operation.client_id = client_ids[request.i]
                          AND operation.session = sessions[request.i]
                          AND operation.number = numbers[request.i]
                        LIMIT 1) AS recorded
    WHERE recorded.related_ids <> request.message_ids AND numbers[request.i] <> 0;
    IF repeated IS NULL THEN
        RETURN;
    END IF;

    SELECT array_agg(CASE WHEN element.error IS NULL AND element.request = ANY (repeated) THEN :NUMBER_REPEATED
                          ELSE element.error END ORDER BY element.i),
           array_agg(CASE WHEN element.request = ANY (repeated) THEN 0
                          ELSE element.message_id END ORDER BY element.i)
    INTO errors, message_ids
    FROM unnest(element_requests, errors, message_ids)
         WITH ORDINALITY AS element (request, error, message_id, i);
END
$$;
