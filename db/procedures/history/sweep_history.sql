-- Procedure:  sweep_history
-- Purpose:    A turn of the job that makes partitions of history ahead and drops those whose time is over, and that
--             forgets the names of middlewares of which the history cannot speak any more.
-- Locks:      the calendar's row (try), and those of extend_history and drop_history
-- Tables:     those of extend_history and drop_history, history_calendar, middlewares (read), middleware_names (delete)
CREATE OR REPLACE FUNCTION telesto.sweep_history(
    moment timestamptz,  -- now
    max_rows int,        -- at most this many partitions are made, and names forgotten
    OUT done bigint,     -- partitions made, emptied and dropped
    OUT more boolean     -- whether there is more to do at once
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    days_at_once constant int := 32;
    oldest constant interval := '800 days';
    made int;
BEGIN
    done := 0;
    more := false;
    -- One at a time, even if two middlewares take the job for theirs: they would wait for each other's partitions.
    PERFORM FROM telesto.history_calendar AS calendar WHERE calendar.only_row FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT extended.made, extended.more INTO made, more
    FROM telesto.extend_history((moment AT TIME ZONE 'UTC')::date, least(days_at_once, max_rows)) AS extended;
    DELETE FROM telesto.middleware_names AS known
    WHERE known.middleware_id = ANY (ARRAY(
        SELECT old.middleware_id FROM telesto.middleware_names AS old
        WHERE old.registered_at < moment - oldest
          AND NOT EXISTS (SELECT FROM telesto.middlewares AS middleware
                          WHERE middleware.middleware_id = old.middleware_id)
        ORDER BY old.middleware_id
        LIMIT max_rows));
    -- Last, for its locks stop everybody until the commit.
    done := made + telesto.drop_history(moment);
END
$$;
