-- Procedure:  may_see_directed
-- Purpose:    Whether who asks may see what is for one receiver only: the receiver's and the sender's clients, and the
--             users to whom these belong. Who has the right admin on the queue may, too, which the caller finds out.
-- Tables:     clients (read)
-- Returns:
--   boolean  true also for what is for anyone
CREATE OR REPLACE FUNCTION telesto.may_see_directed(
    receiver_id bigint,    -- for whom it is; 0 for anyone
    sender_id bigint,      -- who put it
    asking_client bigint,  -- the client that asks
    asking_user bigint     -- its user; NULL for nobody
)
RETURNS boolean
LANGUAGE sql STABLE
AS $$
SELECT receiver_id = 0 OR asking_client IN (receiver_id, sender_id)
       OR (asking_user IS NOT NULL AND EXISTS (SELECT FROM telesto.clients AS client
                                               WHERE client.client_id IN (receiver_id, sender_id)
                                                 AND client.user_id = asking_user))
$$;
