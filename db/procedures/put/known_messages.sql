-- Procedure:  known_messages
-- Purpose:    Finds for keys of messages the ones that were put under them within their queues' windows. The
--             caller holds the queues' put locks, so that what was put before is committed and seen.
-- Tables:     queues, message_keys_0, message_keys_1, message_keys_2 (read)
CREATE OR REPLACE FUNCTION telesto.known_messages(
    queue_ids bigint[],      -- per element: the queue
    keys text[],             -- per element: the key; NULL for a message without one
    OUT known_ids bigint[],  -- per element: the message put first; NULL when there is none
    OUT firsts int[]         -- per element: the first element with the same queue and key, counted from 1; NULL without
                             -- a key
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    at constant timestamptz := clock_timestamp();
BEGIN
    SELECT array_agg(known.message_id ORDER BY element.i), array_agg(element.first ORDER BY element.i)
    INTO known_ids, firsts
    FROM (SELECT element.queue_id, element.key, element.i,
                 CASE WHEN element.key IS NOT NULL
                      THEN min(element.i) OVER (PARTITION BY element.queue_id, element.key) END AS first
          FROM (SELECT unnest(queue_ids) AS queue_id, unnest(keys) AS key,
                       generate_series(1, cardinality(queue_ids)) AS i) AS element) AS element
    LEFT JOIN LATERAL (SELECT at - queue.dedup_window_ms * interval '1 millisecond' AS since
                       FROM telesto.queues AS queue
                       WHERE element.key IS NOT NULL AND queue.queue_id = element.queue_id
                       LIMIT 1) AS dedup ON true
    LEFT JOIN LATERAL (
        SELECT remembered.message_id
        FROM (SELECT remembered.message_id, remembered.put_at FROM telesto.message_keys_0 AS remembered
              WHERE remembered.queue_id = element.queue_id AND remembered.key = element.key
              UNION ALL
              SELECT remembered.message_id, remembered.put_at FROM telesto.message_keys_1 AS remembered
              WHERE remembered.queue_id = element.queue_id AND remembered.key = element.key
              UNION ALL
              SELECT remembered.message_id, remembered.put_at FROM telesto.message_keys_2 AS remembered
              WHERE remembered.queue_id = element.queue_id AND remembered.key = element.key) AS remembered
        WHERE remembered.put_at > dedup.since
        ORDER BY remembered.put_at DESC
        LIMIT 1) AS known ON true;
END
$$;
