-- Procedure:  move_positions
-- Purpose:    Moves subscriptions up to what is confirmed; positions never fall. A request whose subscription
--             is locked is left for later.
-- Errors:     none raised
-- Locks:      subscriptions (try)
-- Tables:     positions (insert, delete)
CREATE OR REPLACE FUNCTION telesto.move_positions(
    INOUT verdicts smallint[],    -- per request: -1 (try again) added
    goal_requests int[],          -- per goal: its request
    goal_subscriptions bigint[],  -- per goal: the subscription
    goal_confirmed bigint[],      -- per goal: what the request confirms
    INOUT positions bigint[],     -- per goal: the position as it is now
    OUT moved boolean             -- whether something was written
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
    SELECT array_agg(goal.subscription_id), array_agg(goal.confirmed),
           array_agg(pg_try_advisory_xact_lock(telesto.subscription_lock_key(goal.subscription_id)))
    INTO moving, wanted, granted
    FROM (SELECT goal.subscription_id, max(goal.confirmed) AS confirmed
          FROM (SELECT unnest(goal_requests) AS request, unnest(goal_subscriptions) AS subscription_id,
                       unnest(goal_confirmed) AS confirmed, unnest(positions) AS position) AS goal
          WHERE goal.confirmed > goal.position AND verdicts[goal.request] IS NULL
          GROUP BY goal.subscription_id
          ORDER BY goal.subscription_id) AS goal;
    moved := false;
    IF moving IS NULL THEN
        RETURN;
    END IF;
    IF false = ANY (granted) THEN
        SELECT array_agg(CASE WHEN request.verdict IS NULL AND request.i = ANY (busy.requests) THEN :BUSY
                              ELSE request.verdict END ORDER BY request.i)
        INTO verdicts
        FROM unnest(verdicts) WITH ORDINALITY AS request (verdict, i)
        CROSS JOIN (SELECT array_agg(goal.request) AS requests
                    FROM unnest(goal_requests, goal_subscriptions, goal_confirmed, positions)
                         AS goal (request, subscription_id, confirmed, position)
                    WHERE goal.confirmed > goal.position
                      AND NOT granted[array_position(moving, goal.subscription_id)]) AS busy;
    END IF;

    -- One that was unsubscribed, dropped or moved on meanwhile is not moved any more.
    SELECT array_agg(known.subscription_id), array_agg(goal.confirmed), array_agg(known.version),
           array_agg(known.ctid)
    INTO moving, wanted, versions, rows
    FROM (SELECT unnest(moving) AS subscription_id, unnest(wanted) AS confirmed, unnest(granted) AS granted)
         AS goal
    CROSS JOIN LATERAL (SELECT known.ctid, known.* FROM telesto.positions AS known
                        WHERE known.subscription_id = goal.subscription_id
                        ORDER BY known.version DESC
                        LIMIT 1) AS known
    WHERE goal.granted AND known.position < goal.confirmed;
    IF moving IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM telesto.positions AS old WHERE old.ctid = ANY (rows);
    INSERT INTO telesto.positions (subscription_id, version, position)
    SELECT goal.subscription_id, goal.version + 1, goal.confirmed
    FROM (SELECT unnest(moving) AS subscription_id, unnest(versions) AS version, unnest(wanted) AS confirmed)
         AS goal;
    moved := true;
    positions := ARRAY(SELECT greatest(goal.position, CASE WHEN moving[width_bucket(goal.subscription_id, moving)]
                                                                = goal.subscription_id
                                                      THEN wanted[width_bucket(goal.subscription_id, moving)] END)
                       FROM (SELECT unnest(goal_subscriptions) AS subscription_id, unnest(positions) AS position)
                            AS goal);
END
$$;
