-- Procedure:  finish_request
-- Purpose:    Ends a single numbered request: leaves its result and deletes what it confirms. Writes also when
--             neither is asked for: what the request found done or gone may not be known to a standby yet.
-- Errors:     unique_violation (23505) when the number was recorded meanwhile: nothing is done
-- Locks:      none; the caller holds the client's
-- Tables:     operations (insert, delete), deliveries (delete)
CREATE OR REPLACE FUNCTION telesto.finish_request(
    client_id bigint,           -- who asks
    session bigint,             -- the session
    number bigint,              -- the request's number; 0 leaves no record
    method_id smallint,         -- the packet, for the record
    related_id bigint,          -- the id or count that it produced; 0 without one
    error smallint,             -- what it was answered with; NULL when done
    confirm_sessions bigint[],  -- per confirmed request: its session
    confirm_numbers bigint[]    -- per confirmed request: its number
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    IF finish_request.number <> 0 THEN
        INSERT INTO telesto.operations (client_id, session, number, method_id, related_ids, errors)
        VALUES (finish_request.client_id, finish_request.session, finish_request.number,
                finish_request.method_id, ARRAY[coalesce(finish_request.related_id, 0)],
                CASE WHEN finish_request.error IS NOT NULL THEN ARRAY[finish_request.error] END);
    ELSE
        PERFORM pg_logical_emit_message(true, 'telesto', '');
    END IF;
    PERFORM telesto.delete_confirmed(
        ARRAY[finish_request.client_id],
        array_fill(finish_request.client_id, ARRAY[cardinality(confirm_numbers)]),
        confirm_sessions, confirm_numbers, false);
END
$$;
