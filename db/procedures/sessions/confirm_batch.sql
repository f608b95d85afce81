-- Procedure:  confirm_batch
-- Purpose:    Deletes what clients have confirmed, when no other batch carries it. Confirming twice is harmless;
--             the second time writes too, for a standby may not know of the first yet.
-- Locks:      clients (shared, try)
-- Tables:     clients (read), operations (delete), deliveries (delete), history (insert)
CREATE OR REPLACE FUNCTION telesto.confirm_batch(
    client_ids bigint[],           -- per request: who confirms
    sessions bigint[],             -- per request: its current session
    confirm_requests int[],        -- per confirmation: its request, counted from 1
    confirm_sessions bigint[],     -- per confirmation: the session of what is confirmed
    confirm_numbers bigint[],      -- per confirmation: its number
    confirm_message_ids bigint[],  -- per confirmation: one message of a read; 0 for the whole request
    OUT errors smallint[],         -- per request: NULL, BUSY (a takeover is under way: try again), CLIENT_NOT_EXISTING
                                   -- or SESSION_FENCED; NULL when all are done
    OUT unknown bigint             -- how many confirmations of requests that are done found nothing
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    done_count bigint;
    operation_rows tid[];
    delivery_rows tid[];
    found_operations bigint;
    found_deliveries bigint;
BEGIN
    SELECT fence.errors INTO errors
    FROM telesto.fence_requests(client_ids, sessions) AS fence;

    SELECT count(*), array_agg(operation.ctid), count(operation.ctid)
    INTO done_count, operation_rows, found_operations
    FROM unnest(confirm_requests, confirm_sessions, confirm_numbers, confirm_message_ids)
         AS confirmed (request, session, number, message_id)
    LEFT JOIN LATERAL (SELECT operation.ctid FROM telesto.operations AS operation
                       WHERE operation.client_id = client_ids[confirmed.request]
                         AND operation.session = confirmed.session
                         AND operation.number = confirmed.number
                         AND confirmed.message_id = 0
                       LIMIT 1) AS operation ON true
    WHERE errors IS NULL OR errors[confirmed.request] IS NULL;

    SELECT array_agg(delivery.ctid), count(DISTINCT confirmed.i)
    INTO delivery_rows, found_deliveries
    FROM unnest(confirm_requests, confirm_sessions, confirm_numbers, confirm_message_ids)
         WITH ORDINALITY AS confirmed (request, session, number, message_id, i)
    CROSS JOIN LATERAL (SELECT delivery.ctid FROM telesto.deliveries AS delivery
                        WHERE delivery.client_id = client_ids[confirmed.request]
                          AND delivery.session = confirmed.session
                          AND delivery.number = confirmed.number
                          AND (confirmed.message_id = 0 OR delivery.message_id = confirmed.message_id)
                        OFFSET 0) AS delivery
    WHERE errors IS NULL OR errors[confirmed.request] IS NULL;

    DELETE FROM telesto.operations AS operation WHERE operation.ctid = ANY (operation_rows);
    PERFORM telesto.end_deliveries(delivery_rows);
    unknown := done_count - found_operations - found_deliveries;
    IF unknown > 0 THEN
        PERFORM pg_logical_emit_message(true, 'telesto', '');
    END IF;
END
$$;
