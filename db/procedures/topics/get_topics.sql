-- Procedure:  get_topics
-- Purpose:    Finds topics by their names and creates those that are missing. All that create take the names
--             in one order, before any lock of a topic, so that they cannot wait for each other in a circle. A
--             topic may be deleted before its lock is had: who has the lock looks whether it is there.
-- Returns:
--   bigint[]                per name: the topic
-- Errors:     TL076 QUOTA_EXCEEDED (a user has as many topics as it may), check_violation for a name out of range
-- Locks:      rows of users with a quota of topics (wait); a name that another transaction is creating waits for it
-- Tables:     clients, users (read), topics (read, insert), topic_states (insert)
CREATE OR REPLACE FUNCTION telesto.get_topics(
    names text[],         -- the names, each once
    client_ids bigint[],  -- per request: the client, to whose user a topic belongs that it makes
    client_topics int[],  -- per request: the index of its topic among the names, counted from 1
    limited boolean DEFAULT true  -- whether a quota of topics refuses one more
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    hashes constant bytea[] := ARRAY(SELECT telesto.topic_hash(wanted.name)
                                     FROM unnest(names) WITH ORDINALITY AS wanted (name, i) ORDER BY wanted.i);
    found bigint[];
    place int;
    creator bigint;
    created bigint;
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
        IF limited THEN
            -- All before the first name, and in one order, as they wait for each other.
            PERFORM FROM telesto.users AS owner
            WHERE owner.max_topics IS NOT NULL
              AND owner.user_id IN (SELECT client.user_id FROM telesto.clients AS client
                                    WHERE client.client_id = ANY (client_ids))
            ORDER BY owner.user_id
            FOR NO KEY UPDATE;
        END IF;
        FOR place IN SELECT wanted.i FROM unnest(hashes, found) WITH ORDINALITY AS wanted (hash, topic_id, i)
                     WHERE wanted.topic_id IS NULL ORDER BY wanted.hash LOOP
            creator := (SELECT client.user_id FROM telesto.clients AS client
                        WHERE client.client_id = client_ids[array_position(client_topics, place)]);
            IF creator IS NOT NULL AND limited THEN
                PERFORM telesto.require_quota(creator, 'topics');
            END IF;
            INSERT INTO telesto.topics AS topic (topic_id, name_hash, name, user_id)
            VALUES (nextval('telesto.topic_ids'), hashes[place], names[place], creator)
            ON CONFLICT ON CONSTRAINT topics_name_unique DO NOTHING
            RETURNING topic.topic_id INTO created;
            IF created IS NOT NULL THEN
                INSERT INTO telesto.topic_states (topic_id, version, last_number, subscribers) VALUES (created, 1, 0, 0);
            END IF;
        END LOOP;
    END LOOP;
    RETURN found;
END
$$;
