-- Procedure:  get_topics
-- Purpose:    Finds topics by their names and creates those that are missing. All that create take the names
--             in one order, before any lock of a topic, so that they cannot wait for each other in a circle. A
--             topic may be deleted before its lock is had: who has the lock looks whether it is there.
-- Returns:
--   bigint[]                per name: the topic
-- Errors:     check_violation for a name out of range
-- Locks:      none of Telesto's; a name that another transaction is creating waits for it
-- Tables:     topics (read, insert), topic_states (insert)
CREATE OR REPLACE FUNCTION telesto.get_topics(
    names text[]  -- the names, each once
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    hashes constant bytea[] := ARRAY(SELECT telesto.topic_hash(wanted.name)
                                     FROM unnest(names) WITH ORDINALITY AS wanted (name, i) ORDER BY wanted.i);
    found bigint[];
BEGIN
    -- Again only when another transaction deletes one of them meanwhile.
    LOOP
        SELECT array_agg(topic.topic_id ORDER BY wanted.i)
        INTO found
        FROM unnest(hashes) WITH ORDINALITY AS wanted (hash, i)
        LEFT JOIN LATERAL (SELECT topic.topic_id FROM telesto.topics AS topic
                           WHERE topic.name_hash = wanted.hash
                           LIMIT 1) AS topic ON true;
        EXIT WHEN array_position(found, NULL) IS NULL;
        WITH created AS (
            INSERT INTO telesto.topics AS topic (topic_id, name_hash, name)
            SELECT nextval('telesto.topic_ids'), missing.hash, missing.name
            FROM (SELECT wanted.hash, wanted.name
                  FROM unnest(hashes, names, found) AS wanted (hash, name, topic_id)
                  WHERE wanted.topic_id IS NULL
                  ORDER BY wanted.hash) AS missing
            ON CONFLICT ON CONSTRAINT topics_name_unique DO NOTHING
            RETURNING topic.topic_id
        )
        INSERT INTO telesto.topic_states (topic_id, version, last_number, subscribers)
        SELECT created.topic_id, 1, 0, 0 FROM created;
    END LOOP;
    RETURN found;
END
$$;
