"""Finds what is wrong with an installed schema: functions that differ, rows that contradict each other."""

from dataclasses import dataclass

import psycopg

from telesto.db.checks.history import HISTORY_INVARIANTS
from telesto.db.checks.invariant import Invariant
from telesto.db.checks.partitions import PARTITION_INVARIANTS
from telesto.db.checks.topics import TOPIC_INVARIANTS
from telesto.db.install.manifest import Manifest
from telesto.db.install.procedures import installed_functions


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that must not be: `subject` names the table or function, `detail` says what is wrong."""

    subject: str
    detail: str


INVARIANTS = (
    Invariant(
        "put_states",
        """
        SELECT format('queue %s has %s live versions instead of one', q.queue_id, count(s.queue_id))
        FROM telesto.queues q LEFT JOIN telesto.put_states s USING (queue_id)
        GROUP BY q.queue_id HAVING count(s.queue_id) <> 1
        """,
    ),
    Invariant(
        "take_states",
        """
        SELECT format('queue %s has %s live versions instead of one', q.queue_id, count(s.queue_id))
        FROM telesto.queues q LEFT JOIN telesto.take_states s USING (queue_id)
        GROUP BY q.queue_id HAVING count(s.queue_id) <> 1
        """,
    ),
    Invariant(
        "receiver_states",
        """
        SELECT format('receiver %s of queue %s has %s live versions', receiver_id, queue_id, count(*))
        FROM telesto.receiver_states GROUP BY queue_id, receiver_id HAVING count(*) > 1
        """,
    ),
    Invariant(
        "put_states",
        """
        SELECT format('a state is left of queue %s, which does not exist', s.queue_id)
        FROM (SELECT queue_id FROM telesto.put_states UNION SELECT queue_id FROM telesto.take_states) s
        WHERE NOT EXISTS (SELECT 1 FROM telesto.queues q WHERE q.queue_id = s.queue_id)
        """,
    ),
    Invariant(
        "messages",
        """
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
           OR p.hidden_total - t.hidden_total <> h.n
        """,
    ),
    Invariant(
        "messages",
        """
        SELECT format('%s messages are left of queue %s, which does not exist and is not being removed',
                      count(*), m.queue_id)
        FROM telesto.messages m
        WHERE NOT EXISTS (SELECT 1 FROM telesto.queues q WHERE q.queue_id = m.queue_id)
          AND NOT EXISTS (SELECT 1 FROM telesto.deleted_queues d WHERE d.queue_id = m.queue_id)
        GROUP BY m.queue_id
        """,
    ),
    Invariant(
        "take_states",
        """
        SELECT format('queue %s, priority %s: bound %s is above message %s',
                      m.queue_id, m.priority, t.lower[m.priority], min(m.message_id))
        FROM telesto.messages m JOIN telesto.take_states t USING (queue_id)
        WHERE m.receiver_id = 0 AND (m.expires_at IS NULL OR m.expires_at > now())
        GROUP BY m.queue_id, m.priority, t.lower[m.priority]
        HAVING min(m.message_id) < t.lower[m.priority]
        """,
    ),
    Invariant(
        "receiver_states",
        """
        SELECT format('queue %s, receiver %s, priority %s: bound %s is above message %s',
                      m.queue_id, m.receiver_id, m.priority, r.lower[m.priority], min(m.message_id))
        FROM telesto.messages m JOIN telesto.receiver_states r USING (queue_id, receiver_id)
        WHERE m.expires_at IS NULL OR m.expires_at > now()
        GROUP BY m.queue_id, m.receiver_id, m.priority, r.lower[m.priority]
        HAVING min(m.message_id) < r.lower[m.priority]
        """,
    ),
    Invariant(
        "messages",
        """
        SELECT format('queue %s: message %s, priority %s, is above upper bound %s or last id %s',
                      m.queue_id, m.message_id, m.priority, p.upper[m.priority], p.last_id)
        FROM (SELECT queue_id, message_id, priority FROM telesto.messages
              UNION ALL SELECT queue_id, message_id, priority FROM telesto.delayed_messages) m
        JOIN telesto.put_states p USING (queue_id)
        WHERE m.message_id > least(p.upper[m.priority], p.last_id)
        """,
    ),
    Invariant(
        "deliveries",
        """
        SELECT format('message %s waits in queue %s and is handed over to client %s',
                      m.message_id, m.queue_id, d.client_id)
        FROM telesto.messages m JOIN telesto.deliveries d USING (queue_id, message_id)
        """,
    ),
    Invariant(
        "leases",
        """
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
                      WHERE d.queue_id = l.queue_id AND d.message_id = l.message_id)
        """,
    ),
    Invariant(
        "delayed_messages",
        """
        SELECT format('message %s of queue %s is delayed and waits', d.message_id, d.queue_id)
        FROM telesto.delayed_messages d JOIN telesto.messages m USING (queue_id, message_id)
        """,
    ),
    Invariant(
        "leases",
        """
        SELECT format('message %s of queue %s is leased %s times', l.message_id, l.queue_id, count(*))
        FROM telesto.leases l
        GROUP BY l.queue_id, l.message_id HAVING count(*) > 1
        """,
    ),
    Invariant(
        "operations",
        """
        SELECT format('client %s does not exist, but %s of its rows do', o.client_id, count(*))
        FROM (SELECT client_id FROM telesto.operations UNION ALL SELECT client_id FROM telesto.deliveries) o
        WHERE NOT EXISTS (SELECT 1 FROM telesto.clients c WHERE c.client_id = o.client_id)
        GROUP BY o.client_id
        """,
    ),
    *PARTITION_INVARIANTS,
    *TOPIC_INVARIANTS,
    *HISTORY_INVARIANTS,
)


def find_problems(connection: psycopg.Connection, manifest: Manifest) -> list[Problem]:
    """Return what is wrong, functions first; `connection` must not be in a transaction."""
    with connection.transaction():
        # One snapshot for all statements, or messages on the move would look like contradictions.
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return [*_function_problems(connection, manifest), *find_contradictions(connection)]


def _function_problems(connection: psycopg.Connection, manifest: Manifest) -> list[Problem]:
    installed = installed_functions(connection)
    names = [function.name for function in installed]
    texts = {procedure.name: procedure.sql for procedure in manifest.procedures}
    return [
        *(Problem(name, "the function is missing") for name in texts if name not in names),
        *(Problem(name, "the function is not this release's") for name in names if name not in texts),
        *(Problem(name, "the function exists more than once") for name in texts if names.count(name) > 1),
        *(
            Problem(function.name, "the function's text is not this release's")
            for function in installed
            if function.source not in texts.get(function.name, function.source)
        ),
    ]


def find_contradictions(connection: psycopg.Connection) -> list[Problem]:
    """Return what the rows say that cannot be true; all that it reads must be one snapshot, or at rest."""
    return [
        Problem(invariant.subject, detail)
        for invariant in INVARIANTS
        for (detail,) in connection.execute(invariant.sql.encode())
    ]
