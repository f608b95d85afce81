-- Procedure:  register_middleware
-- Purpose:    Makes a middleware known to the others.
-- Returns:
--   bigint                  its id, never used before
-- Tables:     middlewares, middleware_names (insert)
CREATE OR REPLACE FUNCTION telesto.register_middleware(
    address text,  -- where its clients reach it
    version text   -- its release
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    new_id bigint;
BEGIN
    INSERT INTO telesto.middlewares AS middleware (middleware_id, address, version)
    VALUES (nextval('telesto.middleware_ids'), register_middleware.address, register_middleware.version)
    RETURNING middleware.middleware_id INTO new_id;
    INSERT INTO telesto.middleware_names (middleware_id, address, version)
    VALUES (new_id, register_middleware.address, register_middleware.version);
    RETURN new_id;
END
$$;
