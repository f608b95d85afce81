-- Procedure:  delete_confirmed
-- Purpose:    Deletes what clients have confirmed, whole requests each. Exact keys only, looked up one by one:
--             a join would be planned by statistics, and walk the dead rows of the whole index. Writes also
--             when there is nothing to delete: that it was deleted before may not be known to a standby yet.
-- Returns:
--   bigint                     how many of the requests had left something to delete
-- Locks:      none; the caller holds the clients'
-- Tables:     operations (delete), deliveries (delete), history (insert)
CREATE OR REPLACE FUNCTION telesto.delete_confirmed(
    passed bigint[],            -- the clients that passed the fence, sorted; others' confirmations are ignored
    confirm_clients bigint[],   -- the client of each confirmed request
    confirm_sessions bigint[],  -- its session
    confirm_numbers bigint[],   -- its number
    reads_first boolean         -- whether most of them are reads; only a matter of speed
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    expected constant bigint := cardinality(confirm_numbers);
    found_reads bigint := 0;
    found_operations bigint := 0;
    rows tid[];
BEGIN
    IF expected = 0 OR passed IS NULL THEN
        RETURN 0;
    END IF;
    FOR turn IN 1..2 LOOP
        IF (turn = 1) = reads_first THEN
            SELECT array_agg(delivery.ctid), count(DISTINCT confirmed.i)
            INTO rows, found_reads
            FROM (SELECT unnest(confirm_clients) AS client_id, unnest(confirm_sessions) AS session,
                         unnest(confirm_numbers) AS number, generate_series(1, expected) AS i) AS confirmed
            CROSS JOIN LATERAL (SELECT delivery.ctid FROM telesto.deliveries AS delivery
                                WHERE delivery.client_id = confirmed.client_id
                                  AND delivery.session = confirmed.session
                                  AND delivery.number = confirmed.number
                                OFFSET 0) AS delivery
            WHERE passed[telesto.sorted_index(confirmed.client_id, passed)] = confirmed.client_id;
            PERFORM telesto.end_deliveries(rows);
        ELSE
            SELECT array_agg(operation.ctid), count(*)
            INTO rows, found_operations
            FROM (SELECT unnest(confirm_clients) AS client_id, unnest(confirm_sessions) AS session,
                         unnest(confirm_numbers) AS number) AS confirmed
            CROSS JOIN LATERAL (SELECT operation.ctid FROM telesto.operations AS operation
                                WHERE operation.client_id = confirmed.client_id
                                  AND operation.session = confirmed.session
                                  AND operation.number = confirmed.number
                                LIMIT 1) AS operation
            WHERE passed[telesto.sorted_index(confirmed.client_id, passed)] = confirmed.client_id;
            DELETE FROM telesto.operations AS operation WHERE operation.ctid = ANY (rows);
        END IF;
        -- A request is either a read or not: once all are found, the other table holds none of them.
        EXIT WHEN found_reads + found_operations >= expected;
    END LOOP;
    IF found_reads + found_operations < expected THEN
        PERFORM pg_logical_emit_message(true, 'telesto', '');
    END IF;
    RETURN found_reads + found_operations;
END
$$;
