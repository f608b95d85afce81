-- Procedure:  limit_transaction
-- Purpose:    Has PostgreSQL end the caller's transaction, with its connection, when it has kept a lock of a queue for
--             longer than installation.sql_lock_limit_ms, because middlewares wait for that lock. The time begins with the
--             first call in a transaction. A shorter limit of the session stays. PostgreSQL 15 and 16 limit only the time
--             for which the transaction is idle.
-- Tables:     installation (read)
CREATE OR REPLACE FUNCTION telesto.limit_transaction()
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    longest constant interval := (SELECT make_interval(secs => installation.sql_lock_limit_ms / 1000.0)
                                  FROM telesto.installation AS installation);
    timer text;
    of_session interval;
BEGIN
    IF longest = interval '0' THEN
        RETURN;
    END IF;
    FOREACH timer IN ARRAY ARRAY['transaction_timeout', 'idle_in_transaction_session_timeout'] LOOP
        of_session := current_setting(timer, true)::interval;
        IF of_session = interval '0' OR of_session > longest THEN
            -- One that runs already is only set anew when it was stopped.
            PERFORM set_config(timer, '0', true),
                    set_config(timer, (extract(epoch FROM longest) * 1000)::int::text, true);
        END IF;
    END LOOP;
END
$$;
