-- Procedure:  draw_numbers
-- Purpose:    Numbers the messages of a batch in which all are put, topic by topic without a gap.
-- Returns:
--   bigint[]                per message: its number
-- Locks:      none; the caller holds the topics'
CREATE OR REPLACE FUNCTION telesto.draw_numbers(
    request_places int[],    -- per request: the index of its topic
    element_requests int[],  -- per message: its request
    lasts bigint[]           -- per topic: its last number
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
BEGIN
    IF cardinality(lasts) = 1 THEN
        RETURN ARRAY(SELECT generate_series(lasts[1] + 1, lasts[1] + cardinality(element_requests)));
    END IF;
    RETURN (SELECT array_agg(lasts[element.place] + element.rank ORDER BY element.i)
            FROM (SELECT place.i, place.place,
                         row_number() OVER (PARTITION BY place.place ORDER BY place.i) AS rank
                  FROM (SELECT element.i, request_places[element.request] AS place
                        FROM unnest(element_requests) WITH ORDINALITY AS element (request, i)) AS place)
                 AS element);
END
$$;
