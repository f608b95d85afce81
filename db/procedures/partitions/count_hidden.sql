-- Procedure:  count_hidden
-- Purpose:    Counts messages that were taken from where they are hidden from plain reads.
-- Locks:      none; the caller holds the queue's take lock
-- Tables:     take_states (insert, delete)
CREATE OR REPLACE FUNCTION telesto.count_hidden(
    from_queue bigint,  -- the queue
    taken bigint        -- how many
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    WITH replaced AS (
        DELETE FROM telesto.take_states AS state
        WHERE state.ctid = ANY (ARRAY(SELECT state.ctid FROM telesto.take_states AS state
                                      WHERE state.queue_id = from_queue
                                      ORDER BY state.version DESC
                                      LIMIT 1))
        RETURNING state.*
    )
    INSERT INTO telesto.take_states (queue_id, version, total, directed_total, hidden_total, lower)
    SELECT replaced.queue_id, replaced.version + 1, replaced.total + taken, replaced.directed_total,
           replaced.hidden_total + taken, replaced.lower
    FROM replaced;
END
$$;
