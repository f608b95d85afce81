-- Procedure:  look_at_clock
-- Purpose:    The time by the clock of this server. Middlewares compare its progress with that of a clock that is never
--             set, see note_clock_step.
-- Tables:     clock (read)
CREATE OR REPLACE FUNCTION telesto.look_at_clock(
    OUT at timestamptz,  -- the time
    OUT steps bigint,    -- how many steps have been noted
    OUT last_id bigint   -- a message id; those that are given later are higher
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    at := clock_timestamp();
    SELECT clock.steps INTO look_at_clock.steps FROM telesto.clock AS clock;
    SELECT ids.last_value INTO look_at_clock.last_id FROM telesto.message_ids AS ids;
END
$$;
