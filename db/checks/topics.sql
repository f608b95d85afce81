-- What must hold between the rows of topics.

-- topic_states
SELECT format('topic %s has %s live versions instead of one', t.topic_id, count(s.topic_id))
FROM telesto.topics t LEFT JOIN telesto.topic_states s USING (topic_id)
GROUP BY t.topic_id HAVING count(s.topic_id) <> 1;

-- topic_states
SELECT format('topic %s counts %s subscribers, there are %s', t.topic_id, t.subscribers, s.n)
FROM telesto.topic_states t
CROSS JOIN LATERAL (SELECT count(*) AS n FROM telesto.subscriptions
                    WHERE topic_id = t.topic_id AND dropped_at IS NULL) s
WHERE t.subscribers <> s.n;

-- positions
SELECT format('subscription %s has %s live positions, dropped: %s',
              s.subscription_id, count(p.subscription_id), s.dropped_at IS NOT NULL)
FROM telesto.subscriptions s LEFT JOIN telesto.positions p USING (subscription_id)
GROUP BY s.subscription_id, s.dropped_at
HAVING count(p.subscription_id) <> CASE WHEN s.dropped_at IS NULL THEN 1 ELSE 0 END;

-- positions
SELECT format('a position is left of subscription %s, which does not exist', p.subscription_id)
FROM telesto.positions p
WHERE NOT EXISTS (SELECT 1 FROM telesto.subscriptions s WHERE s.subscription_id = p.subscription_id);

-- positions
SELECT format('subscription %s began behind %s and stands at %s; the topic''s last number is %s',
              s.subscription_id, s.start_number, p.position, t.last_number)
FROM telesto.subscriptions s JOIN telesto.positions p USING (subscription_id)
JOIN telesto.topic_states t USING (topic_id)
WHERE p.position NOT BETWEEN s.start_number AND t.last_number;

-- topic_messages
SELECT format('topic %s owes the messages behind %s up to %s: %s are missing',
              owed.topic_id, owed.lowest, t.last_number, t.last_number - owed.lowest - m.n)
FROM (SELECT s.topic_id, min(p.position) AS lowest
      FROM telesto.subscriptions s JOIN telesto.positions p USING (subscription_id)
      GROUP BY s.topic_id) owed
JOIN telesto.topic_states t USING (topic_id)
CROSS JOIN LATERAL (SELECT count(*) AS n FROM telesto.topic_messages
                    WHERE topic_id = owed.topic_id AND number > owed.lowest) m
WHERE m.n <> t.last_number - owed.lowest;

-- topic_messages
SELECT format('topic %s: message %s is above the last number %s or was reclaimed up to %s',
              m.topic_id, m.number, s.last_number, t.reclaimed)
FROM telesto.topic_messages m JOIN telesto.topic_states s USING (topic_id)
JOIN telesto.topics t USING (topic_id)
WHERE m.number > s.last_number OR m.number <= t.reclaimed;

-- topic_messages
SELECT format('topic %s does not exist, but %s of its messages do', m.topic_id, count(*))
FROM telesto.topic_messages m
WHERE NOT EXISTS (SELECT 1 FROM telesto.topics t WHERE t.topic_id = m.topic_id)
  AND NOT EXISTS (SELECT 1 FROM telesto.deleted_topics d WHERE d.topic_id = m.topic_id)
GROUP BY m.topic_id;

-- topics
SELECT format('topic %s does not exist, but its %s do', left_over.topic_id, left_over.what)
FROM (SELECT topic_id, 'states' AS what FROM telesto.topic_states
      UNION SELECT topic_id, 'subscriptions' FROM telesto.subscriptions
      UNION SELECT topic_id, 'publishers'' sequences' FROM telesto.publisher_states) left_over
WHERE NOT EXISTS (SELECT 1 FROM telesto.topics t WHERE t.topic_id = left_over.topic_id);

-- subscriptions
SELECT format('client %s does not exist, but %s of its subscriptions do', s.client_id, count(*))
FROM telesto.subscriptions s
WHERE NOT EXISTS (SELECT 1 FROM telesto.clients c WHERE c.client_id = s.client_id)
GROUP BY s.client_id;
