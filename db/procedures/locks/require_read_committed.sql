-- Procedure:  require_read_committed
-- Purpose:    Refuses to work in a transaction whose snapshot does not advance: what a lock guards is read in
--             the statement after the lock, and must be what the lock's last holder left.
-- Errors:     invalid_transaction_state (25000)
CREATE OR REPLACE FUNCTION telesto.require_read_committed()
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'telesto needs READ COMMITTED, not %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
END
$$;
