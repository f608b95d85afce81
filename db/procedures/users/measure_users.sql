-- Procedure:  measure_users
-- Purpose:    Measures what the clients of users with such a quota have stored, and tells middlewares of users that have
--             reached it or have space again. One middleware does it for all. Its time is bounded: a table with more pages
--             than max_pages is estimated from a random part of so many. What deleted clients have put counts as well; such
--             a client is forgotten when no message of it was found for a minute, or an hour where tables were estimated.
-- Locks:      the job's row
-- Tables:     jobs (insert, update), users, clients, queues, topics, messages, delayed_messages, keyed_messages,
--             deliveries, leases, dead_letters, staged_messages, topic_messages, staged_topic_messages (read),
--             user_usage (insert, update, delete), former_clients (update, delete)
CREATE OR REPLACE FUNCTION telesto.measure_users(
    middleware_id bigint,         -- who offers to do it
    hold_s double precision,      -- how long the job is kept for the caller, in seconds
    max_pages int,                -- of a table at most so many pages of 8 KiB are read, about
    OUT elected boolean,          -- whether the job is the caller's
    OUT user_ids bigint[],        -- per quota of which at least 80 % are used: the user
    OUT names text[],             -- its name
    OUT quotas text[],            -- the quota: clients, queues, topics, stored_messages or stored_bytes
    OUT used bigint[],            -- how much is used
    OUT limits bigint[]           -- how much may be used
)
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_variable
DECLARE
    limited bigint[];
    counted jsonb := '{}';
    stored text;
    percent double precision;
    complete boolean := true;
    part record;
BEGIN
    elected := telesto.elect(middleware_id, 'user_usage', hold_s);
    IF NOT elected THEN
        RETURN;
    END IF;
    limited := ARRAY(SELECT owner.user_id FROM telesto.users AS owner
                     WHERE owner.max_stored_messages IS NOT NULL OR owner.max_stored_bytes IS NOT NULL);
    DELETE FROM telesto.user_usage AS usage WHERE usage.user_id <> ALL (limited);
    DELETE FROM telesto.former_clients AS former WHERE former.user_id <> ALL (limited);
    IF limited <> '{}' THEN
        FOREACH stored IN ARRAY ARRAY['messages', 'delayed_messages', 'keyed_messages', 'deliveries', 'leases',
                                      'dead_letters', 'staged_messages', 'topic_messages', 'staged_topic_messages'] LOOP
            percent := least(100, 100.0 * max_pages
                                  / greatest(1, pg_relation_size(format('telesto.%I', stored)::regclass) / 8192));
            complete := complete AND percent = 100;
            FOR part IN EXECUTE format(
                'SELECT client.user_id, sum(sent.n) AS n, sum(sent.bytes) AS bytes,
                        array_agg(sent.sender_id) FILTER (WHERE client.former) AS former_ids
                 FROM (SELECT sent.sender_id, count(*) AS n,
                              sum(octet_length(sent.body) + coalesce(pg_column_size(sent.headers), 0)) AS bytes
                       FROM telesto.%I AS sent TABLESAMPLE SYSTEM ($1) GROUP BY sent.sender_id) AS sent
                 CROSS JOIN LATERAL (SELECT client.user_id, false AS former FROM telesto.clients AS client
                                     WHERE client.client_id = sent.sender_id
                                     UNION ALL
                                     SELECT gone.user_id, true FROM telesto.former_clients AS gone
                                     WHERE gone.client_id = sent.sender_id LIMIT 1) AS client
                 WHERE client.user_id = ANY ($2) GROUP BY client.user_id', stored) USING percent, limited LOOP
                counted := counted || jsonb_build_object(part.user_id, jsonb_build_array(
                    coalesce((counted -> part.user_id::text ->> 0)::numeric, 0) + part.n * 100 / percent::numeric,
                    coalesce((counted -> part.user_id::text ->> 1)::numeric, 0) + part.bytes * 100 / percent::numeric));
                UPDATE telesto.former_clients AS former SET seen_at = clock_timestamp()
                WHERE former.client_id = ANY (part.former_ids)
                  AND former.seen_at < clock_timestamp() - interval '20 seconds';
            END LOOP;
        END LOOP;
        DELETE FROM telesto.former_clients AS former
        WHERE former.seen_at < clock_timestamp() - CASE WHEN complete THEN interval '1 minute' ELSE interval '1 hour' END;
        PERFORM pg_notify('telesto_users', turned.user_id::text)
        FROM telesto.note_usage(limited, counted) AS turned (user_id);
    END IF;
    SELECT array_agg(near.user_id), array_agg(near.name), array_agg(near.quota), array_agg(near.used),
           array_agg(near.most)
    INTO user_ids, names, quotas, used, limits
    FROM (SELECT owner.user_id, owner.name, quota.quota, quota.used, quota.most
          FROM telesto.users AS owner
          LEFT JOIN telesto.user_usage AS usage ON usage.user_id = owner.user_id
          CROSS JOIN LATERAL (VALUES
              ('clients', owner.max_clients, CASE WHEN owner.max_clients IS NOT NULL THEN
                  (SELECT count(*) FROM telesto.clients AS own WHERE own.user_id = owner.user_id) END),
              ('queues', owner.max_queues, CASE WHEN owner.max_queues IS NOT NULL THEN
                  (SELECT count(*) FROM telesto.queues AS own WHERE own.user_id = owner.user_id) END),
              ('topics', owner.max_topics, CASE WHEN owner.max_topics IS NOT NULL THEN
                  (SELECT count(*) FROM telesto.topics AS own WHERE own.user_id = owner.user_id) END),
              ('stored_messages', owner.max_stored_messages, usage.stored_messages),
              ('stored_bytes', owner.max_stored_bytes, usage.stored_bytes)) AS quota (quota, most, used)
          WHERE quota.used >= 0.8 * quota.most
          ORDER BY owner.user_id
          LIMIT 1000) AS near;
END
$$;
