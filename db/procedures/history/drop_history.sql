-- Procedure:  drop_history
-- Purpose:    Drops partitions of history whose time is over. One must have been due for an hour, so that a clock
--             that leaps ahead and is put right again costs nothing. It is emptied first, which needs nothing but
--             the partition itself; it goes altogether when nobody uses the history for a moment. Neither is
--             waited for: what cannot be had now is tried again in the next turn, so that nobody waits behind it.
--             The last one that is open stays, for it takes whatever ends while there is none of its own.
-- Returns:
--   bigint                  how many partitions were emptied or dropped
-- Locks:      partitions (ACCESS EXCLUSIVE, try), history (ACCESS EXCLUSIVE, try) until the commit, which has to
--             follow at once
-- Tables:     history, history_partitions (update, delete), history_calendar (update)
CREATE OR REPLACE FUNCTION telesto.drop_history(
    moment timestamptz  -- now
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    grace constant interval := '1 hour';
    partitions_at_once constant int := 8;
    today constant date := moment AT TIME ZONE 'UTC';
    partition telesto.history_partitions;
    done bigint := 0;
BEGIN
    UPDATE telesto.history_partitions AS partition
    SET due_since = CASE WHEN partition.due_on <= today THEN moment END
    WHERE (partition.due_on <= today AND (partition.due_since IS NULL OR partition.due_since > moment))
       OR (partition.due_on > today AND partition.due_since IS NOT NULL);

    FOR partition IN
        SELECT partition.* FROM telesto.history_partitions AS partition
        WHERE partition.due_since <= moment - grace AND NOT partition.emptied
          AND partition.day < (SELECT max(last.day) FROM telesto.history_partitions AS last WHERE last.state = 'open')
        ORDER BY partition.day
        LIMIT partitions_at_once
    LOOP
        BEGIN
            EXECUTE format('LOCK TABLE ONLY telesto.%I IN ACCESS EXCLUSIVE MODE NOWAIT', partition.name);
            EXECUTE format('TRUNCATE TABLE ONLY telesto.%I', partition.name);
            UPDATE telesto.history_partitions AS emptied
            SET emptied = true
            WHERE emptied.day = partition.day;
            done := done + 1;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;

    -- The floor stays, for days on which there is nothing else.
    UPDATE telesto.history_partitions AS partition
    SET due_on = NULL, due_since = NULL, emptied = false
    WHERE partition.name = 'history_floor' AND partition.emptied;
    PERFORM FROM telesto.history_partitions AS partition WHERE partition.emptied;
    IF NOT FOUND THEN
        RETURN done;
    END IF;
    BEGIN
        LOCK TABLE ONLY telesto.history IN ACCESS EXCLUSIVE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN done;
    END;
    FOR partition IN
        SELECT partition.* FROM telesto.history_partitions AS partition
        WHERE partition.emptied
        ORDER BY partition.day
        LIMIT partitions_at_once
    LOOP
        BEGIN
            EXECUTE format('LOCK TABLE ONLY telesto.%I IN ACCESS EXCLUSIVE MODE NOWAIT', partition.name);
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
        EXECUTE format('DROP TABLE telesto.%I', partition.name);
        DELETE FROM telesto.history_partitions AS gone WHERE gone.day = partition.day;
        done := done + 1;
    END LOOP;
    PERFORM telesto.note_history_days();
    RETURN done;
END
$$;
