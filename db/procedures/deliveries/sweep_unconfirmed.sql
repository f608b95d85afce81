-- Procedure:  sweep_unconfirmed
-- Purpose:    Moves hand-overs that were not confirmed in time to the dead letters: they may have been
--             processed, so they do not go back by themselves. Walks from client to client, from where the
--             last turn ended; a client at work is left for the next round.
-- Locks:      clients (exclusive, try)
-- Tables:     jobs (read, update), deliveries (read, delete), dead_letters (insert)
CREATE OR REPLACE FUNCTION telesto.sweep_unconfirmed(
    max_rows int,                  -- at most about this many messages, at most this many clients
    retention_s double precision,  -- how long a hand-over may be unconfirmed, in seconds
    OUT done bigint,               -- how many were moved
    OUT more boolean               -- whether this round goes on
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    due constant timestamptz := clock_timestamp() - make_interval(secs => retention_s);
    visited int := 0;
    client bigint;
BEGIN
    done := 0;
    SELECT job.position INTO client FROM telesto.jobs AS job WHERE job.job = 'unconfirmed';
    LOOP
        more := done < max_rows AND visited < max_rows;
        EXIT WHEN NOT more;
        SELECT delivery.client_id INTO client
        FROM telesto.deliveries AS delivery
        WHERE delivery.client_id > client
        ORDER BY delivery.client_id, delivery.session, delivery.number, delivery.message_id
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        visited := visited + 1;
        PERFORM FROM telesto.deliveries AS delivery
        WHERE delivery.client_id = client AND delivery.handed_over_at < due
        LIMIT 1;
        CONTINUE WHEN NOT FOUND OR NOT pg_try_advisory_xact_lock(telesto.client_lock_key(client));
        done := done + telesto.bury_deliveries(client, due, max_rows);
    END LOOP;
    -- The round ends where no client follows; the next one begins at the first.
    more := client IS NOT NULL;
    UPDATE telesto.jobs AS job SET position = coalesce(client, 0) WHERE job.job = 'unconfirmed';
END
$$;
