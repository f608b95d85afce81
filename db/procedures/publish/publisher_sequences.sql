-- Procedure:  publisher_sequences
-- Purpose:    Reads how far the publishers are that number their own messages.
-- Locks:      none; the caller holds the topics'
-- Tables:     publisher_states (read)
CREATE OR REPLACE FUNCTION telesto.publisher_sequences(
    client_ids bigint[],       -- per request: who puts
    topics bigint[],           -- the topics, sorted
    request_places int[],      -- per request: the index of its topic
    verdicts smallint[],       -- per request: NULL when it is executed
    element_requests int[],    -- per message: its request
    INOUT sequences bigint[],  -- per publisher and topic: the last sequence; 0 for none
    OUT pairs int[],           -- per message: the index of its publisher and topic; NULL without a sequence
    OUT numbers bigint[]       -- per publisher and topic: the number that it got; 0 for none
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    pair_topics bigint[];
    pair_clients bigint[];
BEGIN
    SELECT array_agg(element.pair ORDER BY element.i)
    INTO pairs
    FROM (SELECT element.i, CASE WHEN element.numbered THEN
                     dense_rank() OVER (ORDER BY element.numbered DESC, element.place, element.client_id) END AS pair
          FROM (SELECT element.i, request_places[element.request] AS place,
                       client_ids[element.request] AS client_id,
                       element.sequence IS NOT NULL AND verdicts[element.request] IS NULL AS numbered
                FROM unnest(element_requests, sequences) WITH ORDINALITY AS element (request, sequence, i))
               AS element) AS element;

    SELECT array_agg(pair.topic_id ORDER BY pair.i), array_agg(pair.client_id ORDER BY pair.i)
    INTO pair_topics, pair_clients
    FROM (SELECT DISTINCT element.pair AS i, topics[request_places[element.request]] AS topic_id,
                          client_ids[element.request] AS client_id
          FROM unnest(element_requests, pairs) AS element (request, pair)
          WHERE element.pair IS NOT NULL) AS pair;

    SELECT array_agg(coalesce(state.sequence, 0) ORDER BY pair.i),
           array_agg(coalesce(state.number, 0) ORDER BY pair.i)
    INTO sequences, numbers
    FROM unnest(pair_topics, pair_clients) WITH ORDINALITY AS pair (topic_id, client_id, i)
    LEFT JOIN LATERAL (SELECT state.sequence, state.number FROM telesto.publisher_states AS state
                       WHERE state.topic_id = pair.topic_id AND state.client_id = pair.client_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true;
END
$$;
