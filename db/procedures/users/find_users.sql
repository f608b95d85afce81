-- Procedure:  find_users
-- Purpose:    Finds users by name or id, with what they log in by and what they may do.
-- Tables:     users, user_usage (read)
CREATE OR REPLACE FUNCTION telesto.find_users(
    names text[],           -- the names; {} for none
    user_ids bigint[]       -- the ids; {} for none
)
RETURNS TABLE (
    user_id bigint,         -- the user; one that does not exist has no row
    name text,              -- its name
    verifier text,          -- what its password is checked by; NULL without a password
    enabled boolean,        -- it may log in
    administrator boolean,  -- it may do everything
    monitor boolean,        -- it sees everything
    configure text[],       -- patterns of the queues and topics that it may create, change and delete
    put text[],             -- of those into which it may put
    get text[],             -- of those from which it may read
    admin text[],           -- of those of which it may purge, redrive and cancel messages
    clients text[],         -- of the names that its clients may have
    max_connections int,   -- how many connections of it each middleware serves; NULL for no limit
    max_consumers int,     -- how many consumers it may have at each; NULL for no limit
    max_waiting_reads int, -- how many of its reads may wait at each; NULL for no limit
    max_puts_per_s int,    -- how many messages it may put in a second through each; NULL for no limit
    max_stored_messages bigint,  -- how many messages of its clients may be stored; NULL for no limit
    max_stored_bytes bigint,     -- how many bytes of bodies these may have; NULL for no limit
    stored_messages bigint,      -- how many were stored when it was measured last; NULL without such a quota
    stored_bytes bigint          -- how many bytes of bodies these had
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.user_id, u.name, u.verifier, u.enabled, u.administrator, u.monitor, u.configure, u.put, u.get, u.admin,
           u.clients, u.max_connections, u.max_consumers, u.max_waiting_reads, u.max_puts_per_s,
           u.max_stored_messages, u.max_stored_bytes, usage.stored_messages, usage.stored_bytes
    FROM telesto.users AS u
    LEFT JOIN telesto.user_usage AS usage ON usage.user_id = u.user_id
    WHERE u.name = ANY (find_users.names)
    UNION
    SELECT u.user_id, u.name, u.verifier, u.enabled, u.administrator, u.monitor, u.configure, u.put, u.get, u.admin,
           u.clients, u.max_connections, u.max_consumers, u.max_waiting_reads, u.max_puts_per_s,
           u.max_stored_messages, u.max_stored_bytes, usage.stored_messages, usage.stored_bytes
    FROM telesto.users AS u
    LEFT JOIN telesto.user_usage AS usage ON usage.user_id = u.user_id
    WHERE u.user_id = ANY (find_users.user_ids);
END
$$;
