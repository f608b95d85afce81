-- Procedure:  move_positions
-- Purpose:    Moves subscriptions up to what is confirmed; positions never fall. A request whose subscription
--             is locked is left for later.
-- Locks:      subscriptions (try)
-- Tables:     positions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.move_positions(
    INOUT verdicts smallint[],      -- per request: BUSY (try again) added
    target_requests int[],          -- per target: its request
    target_subscriptions bigint[],  -- per target: the subscription
    target_confirmed bigint[],      -- per target: what the request confirms
    INOUT positions bigint[],       -- per target: the position as it is now
    OUT moved boolean               -- whether something was written
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    moving bigint[];
    wanted bigint[];
    granted boolean[];
    versions bigint[];
    rows tid[];
BEGIN
    SELECT array_agg(target.subscription_id), array_agg(target.confirmed),
           array_agg(pg_try_advisory_xact_lock(telesto.subscription_lock_key(target.subscription_id)))
    INTO moving, wanted, granted
    FROM (SELECT target.subscription_id, max(target.confirmed) AS confirmed
          FROM (SELECT unnest(target_requests) AS request, unnest(target_subscriptions) AS subscription_id,
                       unnest(target_confirmed) AS confirmed, unnest(positions) AS position) AS target
          WHERE target.confirmed > target.position AND verdicts[target.request] IS NULL
          GROUP BY target.subscription_id
          ORDER BY target.subscription_id) AS target;
    moved := false;
    IF moving IS NULL THEN
        RETURN;
    END IF;
    IF false = ANY (granted) THEN
        SELECT array_agg(CASE WHEN request.verdict IS NULL AND request.i = ANY (busy.requests) THEN :BUSY
                              ELSE request.verdict END ORDER BY request.i)
        INTO verdicts
        FROM unnest(verdicts) WITH ORDINALITY AS request (verdict, i)
        CROSS JOIN (SELECT array_agg(target.request) AS requests
                    FROM unnest(target_requests, target_subscriptions, target_confirmed, positions)
                         AS target (request, subscription_id, confirmed, position)
                    WHERE target.confirmed > target.position
                      AND NOT granted[array_position(moving, target.subscription_id)]) AS busy;
    END IF;

    -- One that was unsubscribed, dropped or moved on meanwhile is not moved any more.
    SELECT array_agg(known.subscription_id), array_agg(target.confirmed), array_agg(known.version),
           array_agg(known.ctid)
    INTO moving, wanted, versions, rows
    FROM (SELECT unnest(moving) AS subscription_id, unnest(wanted) AS confirmed, unnest(granted) AS granted)
         AS target
    CROSS JOIN LATERAL (SELECT known.ctid, known.* FROM telesto.positions AS known
                        WHERE known.subscription_id = target.subscription_id
                        ORDER BY known.version DESC
                        LIMIT 1) AS known
    WHERE target.granted AND known.position < target.confirmed;
    IF moving IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM telesto.positions AS old WHERE old.ctid = ANY (rows);
    INSERT INTO telesto.positions (subscription_id, version, position)
    SELECT target.subscription_id, target.version + 1, target.confirmed
    FROM (SELECT unnest(moving) AS subscription_id, unnest(versions) AS version, unnest(wanted) AS confirmed)
         AS target;
    moved := true;
    positions := ARRAY(SELECT greatest(target.position,
                                       CASE WHEN moving[target.at] = target.subscription_id THEN wanted[target.at] END)
                       FROM (SELECT target.*, telesto.sorted_index(target.subscription_id, moving) AS at
                             FROM (SELECT unnest(target_subscriptions) AS subscription_id, unnest(positions) AS position)
                                  AS target) AS target);
END
$$;
