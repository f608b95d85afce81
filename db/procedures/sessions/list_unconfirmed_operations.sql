-- Procedure:  list_unconfirmed_operations
-- Purpose:    A page of the requests other than reads that a client's sessions executed and the client has not
--             confirmed. The transaction writes, see session_error.
-- Tables:     clients (read), operations (read)
CREATE OR REPLACE FUNCTION telesto.list_unconfirmed_operations(
    of_client bigint,        -- the client
    current_session bigint,  -- its session
    after_session bigint,    -- the last row of the page before; 0 for the first page
    after_number bigint,     -- the last row of the page before; 0 for the first page
    max_rows int             -- at most this many
)
RETURNS TABLE (
    error smallint,        -- NULL, or in a single row CLIENT_NOT_EXISTING or SESSION_FENCED
    session bigint,        -- the session in which the request was sent
    number bigint,         -- its number
    method_id smallint,    -- its packet
    related_ids bigint[],  -- per part of the request: the id that it produced; 0 without one
    errors smallint[]      -- per part: its error; NULL when all are done
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
    SELECT NULL::smallint, operation.session, operation.number, operation.method_id, operation.related_ids,
           operation.errors
    FROM telesto.operations AS operation
    WHERE operation.client_id = of_client
      AND (operation.session, operation.number) > (after_session, after_number)
    ORDER BY operation.client_id, operation.session, operation.number
    LIMIT max_rows;
END
$$;
