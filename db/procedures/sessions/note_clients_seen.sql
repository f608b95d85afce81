-- Procedure:  note_clients_seen
-- Purpose:    Notes that the connections of temporary clients are open now, see sweep_temporary_clients. Rows that are
--             in use are passed over: they are noted by what uses them, or the next time.
-- Errors:     invalid_transaction_state (25000) outside READ COMMITTED
-- Locks:      the clients' rows
-- Tables:     clients (read, update)
CREATE OR REPLACE FUNCTION telesto.note_clients_seen(
    client_ids bigint[]  -- the clients; of others than temporary ones nothing is noted
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
    PERFORM telesto.require_read_committed();
    UPDATE telesto.clients AS client
    SET seen_at = clock_timestamp()
    WHERE client.client_id IN (SELECT seen.client_id
                               FROM telesto.clients AS seen
                               WHERE seen.client_id = ANY (client_ids) AND seen.temporary
                               ORDER BY seen.client_id
                               FOR UPDATE SKIP LOCKED);
END
$$;
