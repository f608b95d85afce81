"""Fills the history of a database with as many rows as a large service would leave in some days.

The rows are made by PostgreSQL itself, a day in a transaction: a few queues have most of the messages,
priorities are spread around the middle, waits are those of readers that keep up and now and then do not.
"""

from datetime import date, datetime, timedelta
from typing import Any, Final

import psycopg

DAYS: Final = 7
QUEUES: Final = 20
CLIENTS: Final = 200
#: Rows of a transaction, so that a stream's turn has something to choose from.
ROWS_OF_A_COMMIT: Final = 50_000
_TURNS_MAX: Final = 10

_NAMES: Final = """
SELECT telesto.create_queue('queue ' || i) FROM generate_series(1, %(queues)s) AS i;
SELECT telesto.request_id('client ' || i) FROM generate_series(1, %(clients)s) AS i
"""
# Four numbers from 0 to 1 that look like chance decide all, and a message's id decides them: any two fillings
# are equal.
_ROWS: Final = """
INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, context, client_id, session,
                             number, consumer_id, time_of_arrival, handed_over_at, ended_at, drop_on, ending,
                             put_through, handed_over_through, attempt, priority, redelivered, reason)
SELECT drawn.i,
       %(first_queue)s + floor(%(queues)s * drawn.a * drawn.a * drawn.a)::bigint,
       %(first_client)s + floor(%(clients)s * drawn.b * drawn.b)::bigint,
       0, CASE WHEN drawn.b < 0.05 THEN drawn.i END,
       %(first_client)s + floor(%(clients)s * drawn.c)::bigint,
       1, drawn.i,
       CASE WHEN drawn.a > 0.7 THEN 1 + floor(20 * drawn.c)::bigint END,
       drawn.arrived, drawn.arrived + drawn.waited, drawn.arrived + drawn.waited + drawn.held,
       %(day)s::date,
       (CASE WHEN drawn.d < 0.005 THEN 'dead' WHEN drawn.d < 0.03 THEN 'returned'
             WHEN drawn.a > 0.7 THEN 'acknowledged' ELSE 'confirmed' END)::telesto.ending,
       1, 1,
       CASE WHEN drawn.d < 0.005 THEN 5 WHEN drawn.d < 0.06 THEN 2 ELSE 1 END,
       1 + floor(5 * drawn.b + 5 * drawn.c)::smallint,
       drawn.d < 0.06,
       CASE WHEN drawn.d < 0.03 THEN 'failed' END
FROM (
    SELECT chance.*, %(begin)s::timestamptz + %(step)s * (chance.i - %(first)s) AS arrived,
           interval '1 ms' * (0.5 + 20 * chance.c * chance.c
                              + 4000 * greatest(0, sin(chance.i / 20000::float8) - 0.9)) AS waited,
           interval '1 ms' * (0.2 - 30 * ln(chance.d + 1e-9)) AS held
    FROM (
        SELECT i, hashint8extended(i, 1) %% 1000003 / 2000006::float8 + 0.5 AS a,
               hashint8extended(i, 2) %% 1000003 / 2000006::float8 + 0.5 AS b,
               hashint8extended(i, 3) %% 1000003 / 2000006::float8 + 0.5 AS c,
               hashint8extended(i, 4) %% 1000003 / 2000006::float8 + 0.5 AS d
        FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i
    ) AS chance
) AS drawn
"""


def fill_history(url: str, rows: int) -> None:
    """Create queues and clients, and end `rows` messages over the last DAYS days.

    Args:
        url: a database with the schema and nothing else in it.
        rows: how many.

    Raises:
        psycopg.Error: the database refuses.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        now = _one(connection, "SELECT now()")
        numbers: dict[str, Any] = {"queues": QUEUES, "clients": CLIENTS}
        for statement in _NAMES.split(";"):
            connection.execute(statement.encode(), numbers)
        numbers["first_queue"] = _one(connection, "SELECT min(queue_id) FROM telesto.queues")
        numbers["first_client"] = _one(connection, "SELECT min(client_id) FROM telesto.clients")
        for ago in range(DAYS, -1, -1):
            _make_partitions(connection, now - timedelta(days=ago))
        step = timedelta(days=DAYS) / max(rows, 1)
        for first in range(1, rows + 1, ROWS_OF_A_COMMIT):
            begin = now - timedelta(days=DAYS) + step * (first - 1)
            limits = {"first": first, "last": min(rows, first + ROWS_OF_A_COMMIT - 1)}
            moment = {"begin": begin, "step": step, "day": _day(connection, begin)}
            connection.execute(_ROWS.encode(), {**numbers, **limits, **moment})
        connection.execute("VACUUM (ANALYZE) telesto.history")


def _make_partitions(connection: psycopg.Connection, moment: datetime) -> None:
    for _ in range(_TURNS_MAX):
        if not _one(connection, "SELECT more FROM telesto.sweep_history(%s, 1000)", moment):
            return


def _day(connection: psycopg.Connection, moment: datetime) -> date:
    query = "SELECT telesto.history_day(telesto.known_history_days(), %s, 7::smallint)"
    found: date = _one(connection, query, moment.date())
    return found


def _one(connection: psycopg.Connection, query: str, *parameters: Any) -> Any:
    row = connection.execute(query.encode(), parameters or None).fetchone()
    assert row is not None
    return row[0]
