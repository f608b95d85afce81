"""Records that a database was restored to an earlier state, or moved unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from telesto.db.install.place import keep_place, read_places

#: A middleware with a more recent heartbeat may be alive; the default of its own `heartbeat_timeout_s`.
ALIVE_S = 6.0

# Middlewares name their connections, which reveal one whose heartbeat cannot get through.
CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'telesto %' AND pid <> pg_backend_pid()
"""
# The clock may have been set back too: a heartbeat from the future proves nothing.
ALIVE = """
SELECT address FROM telesto.middlewares
WHERE heartbeat_at BETWEEN clock_timestamp() - make_interval(secs => %s) AND clock_timestamp() ORDER BY 1
"""
RENEW = """
UPDATE telesto.installation SET incarnation = gen_random_uuid()
RETURNING (SELECT incarnation::text FROM telesto.installation), incarnation::text
"""
FORGET = "SELECT telesto.forget_middlewares(ARRAY(SELECT middleware_id FROM telesto.middlewares))"


class MiddlewaresAliveError(Exception):
    """The database is in use."""


class NotInstalledError(Exception):
    """The database holds no Telesto."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """The identity before and after."""

    before: str
    incarnation: str


def note_move(url: str) -> bool:
    """Record that the data is complete at its current place; return whether that was new.

    The database keeps its identity, so clients in doubt trust its answers. Needs the rights of the schema's
    owner. Raises what `renew_incarnation` raises.
    """
    with _at_rest(url) as connection:
        places = read_places(connection)
        moved = places is not None and (places.kept is None or places.differ)
        if moved:
            keep_place(connection)
            connection.execute(FORGET)
    return moved


def renew_incarnation(url: str, *, alone: bool = False) -> Renewal:
    """Give the database a new identity, and forget the earlier middlewares.

    Clients that knew the old identity no longer trust the database's answers about their requests. Needs the
    rights of the schema's owner. ``alone`` says that nobody else can reach the database: its middlewares are
    those of the original then, however recent their heartbeats are.

    Raises MiddlewaresAliveError, NotInstalledError, or psycopg.Error if the database refuses.
    """
    with _at_rest(url, alone) as connection:
        renewed = connection.execute(RENEW).fetchone()
        if read_places(connection) is not None:
            keep_place(connection)
        connection.execute(FORGET)
    if renewed is None:
        raise NotInstalledError("the table telesto.installation is empty")
    return Renewal(*renewed)


@contextmanager
def _at_rest(url: str, alone: bool = False) -> Iterator[psycopg.Connection]:
    """Yield a transaction without middlewares: none is alive, and none can register before its end."""
    with psycopg.connect(url) as connection, connection.transaction():
        row = connection.execute("SELECT to_regclass('telesto.installation') IS NULL").fetchone()
        if row is None or row[0]:
            raise NotInstalledError("there is no Telesto in this database")
        # No middleware can register from here to the commit.
        connection.execute("LOCK TABLE telesto.middlewares IN SHARE ROW EXCLUSIVE MODE")
        if not alone:
            _require_rest(connection)
        yield connection


def _require_rest(connection: psycopg.Connection) -> None:
    alive = ", ".join(address for (address,) in connection.execute(ALIVE, (ALIVE_S,)))
    if alive:
        raise MiddlewaresAliveError(
            f"middlewares run, or ran less than {ALIVE_S:g} s ago: {alive}; stop them first"
        )
    row = connection.execute(CONNECTIONS.encode()).fetchone()
    if row is not None and row[0]:
        raise MiddlewaresAliveError(
            f"middlewares are connected to the database ({row[0]} times); stop them first"
        )
