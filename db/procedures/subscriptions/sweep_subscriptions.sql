-- Procedure:  sweep_subscriptions
-- Purpose:    Compares subscriptions that have a limit with it, from where the last turn ended: marks those
--             that are lagging, and drops them where that was wanted: they are owed nothing more, and the client's next
--             get tells. A turn ends with the first that it drops, so that the topic's lock is not held longer than that
--             takes.
-- Locks:      a topic, a subscription (try)
-- Tables:     jobs (read, update), topic_states (read, insert, delete), topic_messages (read), subscriptions
--             (read, update), positions (read, delete)
CREATE OR REPLACE FUNCTION telesto.sweep_subscriptions(
    max_rows int,     -- at most this many subscriptions
    OUT done bigint,  -- how many were dropped
    OUT more boolean  -- whether this round goes on
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    visited int := 0;
    reached bigint;
    subscription record;
    lagging boolean;
BEGIN
    done := 0;
    SELECT job.position INTO reached FROM telesto.jobs AS job WHERE job.job = 'subscriptions';
    FOR subscription IN
        SELECT limited.* FROM telesto.subscriptions AS limited
        WHERE limited.subscription_id > reached AND (limited.max_behind IS NOT NULL OR limited.max_age_ms IS NOT NULL)
        ORDER BY limited.subscription_id
        LIMIT max_rows
    LOOP
        visited := visited + 1;
        reached := subscription.subscription_id;
        CONTINUE WHEN subscription.dropped_at IS NOT NULL;
        lagging := telesto.is_lagging(subscription.subscription_id, subscription.topic_id,
                                      subscription.max_behind, subscription.max_age_ms);
        IF lagging <> (subscription.lagging_since IS NOT NULL) THEN
            UPDATE telesto.subscriptions AS marked
            SET lagging_since = CASE WHEN lagging THEN clock_timestamp() END
            WHERE marked.client_id = subscription.client_id
              AND marked.subscription_id = subscription.subscription_id;
        END IF;
        CONTINUE WHEN (lagging AND subscription.drop_lagging
                       AND pg_try_advisory_xact_lock(telesto.topic_lock_key(subscription.topic_id))
                       AND pg_try_advisory_xact_lock(telesto.subscription_lock_key(subscription.subscription_id)))
                      IS NOT TRUE;
        UPDATE telesto.subscriptions AS dropped
        SET dropped_at = clock_timestamp()
        WHERE dropped.client_id = subscription.client_id AND dropped.subscription_id = subscription.subscription_id
          AND dropped.dropped_at IS NULL;
        -- It may be gone by now, or dropped.
        IF FOUND THEN
            DELETE FROM telesto.positions AS old WHERE old.subscription_id = subscription.subscription_id;
            PERFORM telesto.count_subscribers(subscription.topic_id, -1);
            done := 1;
            EXIT;
        END IF;
    END LOOP;
    more := done > 0 OR visited >= max_rows;
    UPDATE telesto.jobs AS job SET position = CASE WHEN more THEN reached ELSE 0 END
    WHERE job.job = 'subscriptions';
END
$$;
