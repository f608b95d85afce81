-- What must hold between the partitions of the history.

-- history_partitions
SELECT format('partition %s is %s', coalesce(known.name, actual.name),
              CASE WHEN actual.name IS NULL THEN 'noted and does not exist' ELSE 'not noted' END)
FROM telesto.history_partitions known
FULL JOIN (SELECT c.relname::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
           WHERE i.inhparent = 'telesto.history'::regclass) actual USING (name)
WHERE known.name IS NULL OR actual.name IS NULL;

-- history_calendar
SELECT format('the days are %s, those of the open partitions are %s', calendar.days, partitions.days)
FROM telesto.history_calendar calendar
CROSS JOIN (SELECT array_agg(day ORDER BY day) AS days FROM telesto.history_partitions
            WHERE state = 'open') partitions
WHERE calendar.days IS DISTINCT FROM partitions.days;

-- history_calendar
SELECT 'its one row is missing' WHERE NOT EXISTS (SELECT FROM telesto.history_calendar);
