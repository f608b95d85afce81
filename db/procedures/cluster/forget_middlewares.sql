-- Procedure:  forget_middlewares
-- Purpose:    Removes what middlewares that are gone have left.
-- Tables:     middlewares, interests, lost_leases (delete), jobs (update)
CREATE OR REPLACE FUNCTION telesto.forget_middlewares(
    middleware_ids bigint[]  -- the middlewares
)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM telesto.interests AS interest WHERE interest.middleware_id = ANY (middleware_ids);
    UPDATE telesto.jobs AS job SET holder = 0, deadline = '-infinity' WHERE job.holder = ANY (middleware_ids);
    DELETE FROM telesto.middlewares AS middleware WHERE middleware.middleware_id = ANY (middleware_ids);
    -- Last: a transaction that told it of leases holds its row to the commit.
    DELETE FROM telesto.lost_leases AS lost WHERE lost.middleware_id = ANY (middleware_ids);
END
$$;
