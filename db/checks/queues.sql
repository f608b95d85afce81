-- What must hold between queues, their states and their messages. Each statement is headed by its subject and
-- must return no row; each row that it returns is one problem.

-- put_states
SELECT format('queue %s has %s live versions instead of one', q.queue_id, count(s.queue_id))
FROM telesto.queues q LEFT JOIN telesto.put_states s USING (queue_id)
GROUP BY q.queue_id HAVING count(s.queue_id) <> 1;

-- take_states
SELECT format('queue %s has %s live versions instead of one', q.queue_id, count(s.queue_id))
FROM telesto.queues q LEFT JOIN telesto.take_states s USING (queue_id)
GROUP BY q.queue_id HAVING count(s.queue_id) <> 1;

-- receiver_states
SELECT format('receiver %s of queue %s has %s live versions', receiver_id, queue_id, count(*))
FROM telesto.receiver_states GROUP BY queue_id, receiver_id HAVING count(*) > 1;

-- put_states
SELECT format('a state is left of queue %s, which does not exist', s.queue_id)
FROM (SELECT queue_id FROM telesto.put_states UNION SELECT queue_id FROM telesto.take_states) s
WHERE NOT EXISTS (SELECT 1 FROM telesto.queues q WHERE q.queue_id = s.queue_id);

-- messages
SELECT format('queue %s: the totals say %s messages (%s directed, %s hidden), '
              'there are %s (%s directed, %s hidden)',
              p.queue_id, p.total - t.total, p.directed_total - t.directed_total,
              p.hidden_total - t.hidden_total, m.n + h.n, m.directed, h.n)
FROM telesto.put_states p JOIN telesto.take_states t USING (queue_id)
CROSS JOIN LATERAL (SELECT count(*) AS n, count(*) FILTER (WHERE receiver_id <> 0) AS directed
                    FROM telesto.messages WHERE queue_id = p.queue_id) m
CROSS JOIN LATERAL (SELECT (SELECT count(*) FROM telesto.delayed_messages WHERE queue_id = p.queue_id)
                           + (SELECT count(*) FROM telesto.keyed_messages WHERE queue_id = p.queue_id)
                           AS n) h
WHERE p.total - t.total <> m.n + h.n OR p.directed_total - t.directed_total <> m.directed
   OR p.hidden_total - t.hidden_total <> h.n;

-- messages
SELECT format('%s messages are left of queue %s, which does not exist and is not being removed',
              count(*), m.queue_id)
FROM telesto.messages m
WHERE NOT EXISTS (SELECT 1 FROM telesto.queues q WHERE q.queue_id = m.queue_id)
  AND NOT EXISTS (SELECT 1 FROM telesto.deleted_queues d WHERE d.queue_id = m.queue_id)
GROUP BY m.queue_id;

-- take_states
SELECT format('queue %s, priority %s: bound %s is above message %s',
              m.queue_id, m.priority, t.lower[m.priority], min(m.message_id))
FROM telesto.messages m JOIN telesto.take_states t USING (queue_id)
WHERE m.receiver_id = 0 AND (m.expires_at IS NULL OR m.expires_at > now())
GROUP BY m.queue_id, m.priority, t.lower[m.priority]
HAVING min(m.message_id) < t.lower[m.priority];

-- receiver_states
SELECT format('queue %s, receiver %s, priority %s: bound %s is above message %s',
              m.queue_id, m.receiver_id, m.priority, r.lower[m.priority], min(m.message_id))
FROM telesto.messages m JOIN telesto.receiver_states r USING (queue_id, receiver_id)
WHERE m.expires_at IS NULL OR m.expires_at > now()
GROUP BY m.queue_id, m.receiver_id, m.priority, r.lower[m.priority]
HAVING min(m.message_id) < r.lower[m.priority];

-- messages
SELECT format('queue %s: message %s, priority %s, is above upper bound %s or last id %s',
              m.queue_id, m.message_id, m.priority, p.upper[m.priority], p.last_id)
FROM (SELECT queue_id, message_id, priority FROM telesto.messages
      UNION ALL SELECT queue_id, message_id, priority FROM telesto.delayed_messages) m
JOIN telesto.put_states p USING (queue_id)
WHERE m.message_id > least(p.upper[m.priority], p.last_id);

-- deliveries
SELECT format('message %s waits in queue %s and is handed over to client %s',
              m.message_id, m.queue_id, d.client_id)
FROM telesto.messages m JOIN telesto.deliveries d USING (queue_id, message_id);

-- leases
SELECT format('message %s of queue %s is leased to consumer %s and is elsewhere too',
              l.message_id, l.queue_id, l.consumer_id)
FROM telesto.leases l
WHERE EXISTS (SELECT 1 FROM telesto.messages m
              WHERE m.queue_id = l.queue_id AND m.message_id = l.message_id)
   OR EXISTS (SELECT 1 FROM telesto.delayed_messages m
              WHERE m.queue_id = l.queue_id AND m.message_id = l.message_id)
   OR EXISTS (SELECT 1 FROM telesto.keyed_messages m
              WHERE m.queue_id = l.queue_id AND m.message_id = l.message_id)
   OR EXISTS (SELECT 1 FROM telesto.deliveries d
              WHERE d.queue_id = l.queue_id AND d.message_id = l.message_id);

-- delayed_messages
SELECT format('message %s of queue %s is delayed and waits', d.message_id, d.queue_id)
FROM telesto.delayed_messages d JOIN telesto.messages m USING (queue_id, message_id);

-- leases
SELECT format('message %s of queue %s is leased %s times', l.message_id, l.queue_id, count(*))
FROM telesto.leases l
GROUP BY l.queue_id, l.message_id HAVING count(*) > 1;

-- operations
SELECT format('client %s does not exist, but %s of its rows do', o.client_id, count(*))
FROM (SELECT client_id FROM telesto.operations UNION ALL SELECT client_id FROM telesto.deliveries) o
WHERE NOT EXISTS (SELECT 1 FROM telesto.clients c WHERE c.client_id = o.client_id)
GROUP BY o.client_id;
