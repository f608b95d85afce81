-- Procedure:  advance_publishers
-- Purpose:    Writes down how far the publishers are now that number their own messages.
-- Locks:      none; the caller holds the topics'
-- Tables:     publisher_states (read, insert, delete), topics (update)
CREATE OR REPLACE FUNCTION telesto.advance_publishers(
    client_ids bigint[],      -- per request: who puts
    topics bigint[],          -- the topics, sorted
    request_places int[],     -- per request: the index of its topic
    element_requests int[],   -- per message: its request
    pairs int[],              -- per message: the index of its publisher and topic; NULL without a sequence
    pair_sequences bigint[],  -- per publisher and topic: the last sequence
    pair_numbers bigint[]     -- per publisher and topic: the number that it got
)
RETURNS void
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moved_topics bigint[];
    moved_clients bigint[];
    versions bigint[];
    moved_sequences bigint[];
    moved_numbers bigint[];
    old_rows tid[];
BEGIN
    SELECT array_agg(pair.topic_id), array_agg(pair.client_id), array_agg(coalesce(state.version, 0)),
           array_agg(pair_sequences[pair.i]), array_agg(pair_numbers[pair.i]), array_agg(state.ctid)
    INTO moved_topics, moved_clients, versions, moved_sequences, moved_numbers, old_rows
    FROM (SELECT DISTINCT element.pair AS i, topics[request_places[element.request]] AS topic_id,
                          client_ids[element.request] AS client_id
          FROM unnest(element_requests, pairs) AS element (request, pair)
          WHERE element.pair IS NOT NULL) AS pair
    LEFT JOIN LATERAL (SELECT state.ctid, state.version, state.sequence FROM telesto.publisher_states AS state
                       WHERE state.topic_id = pair.topic_id AND state.client_id = pair.client_id
                       ORDER BY state.version DESC
                       LIMIT 1) AS state ON true
    WHERE pair_sequences[pair.i] > coalesce(state.sequence, 0);
    INSERT INTO telesto.publisher_states (topic_id, client_id, version, sequence, number)
    SELECT moved.topic_id, moved.client_id, moved.version + 1, moved.sequence, moved.number
    FROM unnest(moved_topics, moved_clients, versions, moved_sequences, moved_numbers)
         AS moved (topic_id, client_id, version, sequence, number);
    DELETE FROM telesto.publisher_states AS state WHERE state.ctid = ANY (old_rows);
    IF 0 = ANY (versions) THEN
        -- By the index, so in the order in which others lock them too.
        UPDATE telesto.topics AS topic SET numbered = true
        WHERE topic.topic_id = ANY (moved_topics) AND NOT topic.numbered;
    END IF;
END
$$;
