-- Procedure:  extend_history
-- Purpose:    Makes partitions of history ahead: for the days on which what ends today and in the next days has to
--             be dropped. A commit is seen by others a moment before they are told to forget what they know of the
--             tables that it changed. So a partition is made by one transaction and opened by a later one. Whatever
--             ended while there was none for it is in the last one that was open, which is therefore kept longer.
-- Locks:      history (SHARE UPDATE EXCLUSIVE, try), which neither readers nor writers wait for; history days
--             (exclusive, try)
-- Tables:     history, history_partitions (insert), and those of open_history_days
CREATE OR REPLACE FUNCTION telesto.extend_history(
    today date,       -- the day, UTC
    max_days int,     -- at most this many in this call
    OUT made int,     -- how many were made
    OUT more boolean  -- whether the next transaction has some to open, or more to make
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    missing date[];
BEGIN
    made := 0;
    more := false;
    PERFORM FROM telesto.history_partitions AS partition WHERE partition.state = 'made' AND NOT partition.emptied;
    IF NOT FOUND AND telesto.missing_history_days(today) = '{}' THEN
        RETURN;
    END IF;
    BEGIN
        LOCK TABLE ONLY telesto.history IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN;
    END;
    -- Without the lock settings are being changed, maybe by an application's transaction that stays open: later.
    IF pg_try_advisory_xact_lock(telesto.history_days_lock_key()) THEN
        PERFORM telesto.open_history_days(today);
    END IF;
    missing := telesto.missing_history_days(today);
    made := least(cardinality(missing), max_days);
    more := made > 0;
    PERFORM telesto.make_history_day(missing[i]) FROM generate_series(1, made) AS i;
END
$$;
