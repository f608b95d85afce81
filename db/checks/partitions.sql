-- What must hold between keyed messages, their partitions and their queues.

-- partitions
SELECT format('partition %s of sender %s in queue %s has %s live versions',
              partition_key, sender_id, queue_id, count(*))
FROM telesto.partitions GROUP BY queue_id, sender_id, partition_key HAVING count(*) > 1;

-- partition_states
SELECT format('the partitions of queue %s have %s live states', queue_id, count(*))
FROM telesto.partition_states GROUP BY queue_id HAVING count(*) > 1;

-- partitions
SELECT format('partition %s of sender %s in queue %s begins above message %s',
              p.partition_key, p.sender_id, p.queue_id, min(m.message_id))
FROM telesto.partitions p JOIN telesto.keyed_messages m USING (queue_id, sender_id, partition_key)
WHERE m.message_id < p.next_id AND (m.expires_at IS NULL OR m.expires_at > now())
GROUP BY p.queue_id, p.sender_id, p.partition_key;

-- partitions
SELECT format('message %s waits in partition %s of sender %s in queue %s, and no claim sees to it',
              m.message_id, m.partition_key, m.sender_id, m.queue_id)
FROM telesto.keyed_messages m
LEFT JOIN telesto.partitions p USING (queue_id, sender_id, partition_key)
WHERE (p.line IS NULL OR p.line = 5) AND (m.expires_at IS NULL OR m.expires_at > now())
  AND EXISTS (SELECT 1 FROM telesto.queues q WHERE q.queue_id = m.queue_id)
  AND NOT EXISTS (SELECT 1 FROM telesto.partition_arrivals a
                  WHERE a.queue_id = m.queue_id AND a.sender_id = m.sender_id
                    AND a.partition_key = m.partition_key);

-- partitions
SELECT format('partition %s of sender %s in queue %s is ready for consumer %s, who is not its owner',
              partition_key, sender_id, queue_id, line_id)
FROM telesto.partitions p
WHERE line = 1 AND (line_id <> owner_id
                    OR NOT EXISTS (SELECT 1 FROM telesto.consumers c
                                   WHERE c.queue_id = p.queue_id AND c.consumer_id = p.owner_id))
  AND EXISTS (SELECT 1 FROM telesto.queues q WHERE q.queue_id = p.queue_id);

-- leases
SELECT format('message %s of partition %s in queue %s is leased under %s, its partition under %s',
              l.message_id, l.partition_key, l.queue_id, l.lease_id, p.lease_id)
FROM telesto.leases l
LEFT JOIN telesto.partitions p USING (queue_id, sender_id, partition_key)
WHERE l.partition_key IS NOT NULL
  AND (l.lease_id, l.consumer_id) IS DISTINCT FROM (p.lease_id, p.owner_id)
  AND EXISTS (SELECT 1 FROM telesto.queues q WHERE q.queue_id = l.queue_id);

-- partition_states
SELECT format('consumer %s of queue %s is said to have %s partitions and has %s',
              c.consumer_id, s.queue_id, c.count, n.count)
FROM telesto.partition_states s
CROSS JOIN LATERAL unnest(s.consumer_ids, s.counts) AS c (consumer_id, count)
CROSS JOIN LATERAL (SELECT count(*) FROM telesto.partitions p
                    WHERE p.queue_id = s.queue_id AND p.owner_id = c.consumer_id AND p.line <> 6) n
WHERE c.count <> n.count
  AND EXISTS (SELECT 1 FROM telesto.consumers m
              WHERE m.queue_id = s.queue_id AND m.consumer_id = c.consumer_id);
