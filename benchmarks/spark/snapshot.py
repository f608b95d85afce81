"""One snapshot of the database, held by a connection while others read in it.

Connections that read parts of a table one after the other would each see a different moment, and could read a
moving row twice or not at all. So one connection holds a REPEATABLE READ transaction and exports its
snapshot. It locks the tables (ACCESS SHARE) before it takes the snapshot: otherwise a partition of the
history that is dropped in between would be missing unnoticed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from telesto.benchmarks.spark.errors import SnapshotEndedError, SourceError
from telesto.benchmarks.spark.tables import Table

APPLICATION = "telesto report"
LOCK_TIMEOUT_MS = 10_000
"""How long to wait for the locks of the tables; the wait for a lock blocks others behind it."""
CHECK_EVERY_S = 5.0
"""How often the connection is checked that holds the snapshot."""
HOLD_WARNING_S = 300.0
"""A busy primary that holds the snapshot for longer is worth a warning."""
BUSY_COMMITS_PER_S = 50.0
"""A primary with more commits per second is busy."""

CONNECT_TIMEOUT_S = 10
SILENCE_TIMEOUT_S = 30
"""A server that does not answer for this long counts as gone."""
MISSING_SHOWN = 5

Warn = Callable[[str], None]

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Runs before the transaction, which must lock the tables before it selects anything. No timeout may end the
# transaction while others read, and the statistics that it reads must be current.
_NO_LIMITS = """
SELECT set_config(name, CASE name WHEN 'stats_fetch_consistency' THEN 'none' ELSE '0' END, false)
FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'statement_timeout', 'transaction_timeout',
               'stats_fetch_consistency')
"""
_EXPORT = "SELECT pg_export_snapshot(), now(), pg_is_in_recovery()"
_SIZE = """
SELECT coalesce(max(size), 0) / block, coalesce(sum(size), 0)
FROM (SELECT pg_relation_size(leaf) AS size, current_setting('block_size')::bigint AS block
      FROM (SELECT relid::regclass FROM pg_partition_tree(%(table)s) WHERE isleaf
            UNION SELECT %(table)s::regclass) AS leaves (leaf)) AS sizes
GROUP BY block
"""
_COLUMNS = """
SELECT c.relname::text || '.' || a.attname::text,
       has_schema_privilege(c.relnamespace, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'telesto') AND c.relname = ANY (%s)
"""
_COMMITS = """
SELECT coalesce(sum(xact_commit), 0), extract(epoch FROM clock_timestamp())::float8
FROM pg_stat_database WHERE datname = current_database()
"""


@dataclass(frozen=True, slots=True)
class Server:
    """The server that has the snapshot; of several servers in a URL, no other one has it."""

    host: str
    port: int
    database: str
    user: str
    password: str
    parameters: dict[str, str]


class Snapshot:
    """A snapshot that is being held.

    Attributes:
        name: other connections use it to take the snapshot.
        taken_at: when it was taken, by the server's clock.
        standby: whether the server is a standby.
        server: where it is held.
    """

    def __init__(self, connection: psycopg.Connection, warn: Warn, hold_warning_s: float) -> None:
        self._connection = connection
        self._warn = warn
        self._hold_warning_s = hold_warning_s
        self._ended: str | None = None
        self._commits, self._begun = self._one(_COMMITS)
        self.server = _server_of(connection)
        self.name: str
        self.taken_at: datetime
        self.standby: bool
        self.name, self.taken_at, self.standby = self._one(_EXPORT)

    def size_of(self, table: Table) -> tuple[int, int]:
        """The size of a table: blocks of its largest part, bytes of all parts."""
        try:
            blocks, size = self._one(_SIZE, {"table": f"telesto.{table.name}"})
        except psycopg.OperationalError:
            self.check()
            raise
        return int(blocks), int(size)

    def check(self) -> None:
        """Raise SnapshotEndedError if it is no longer held."""
        if self._ended is None:
            try:
                self._one("SELECT 1")
            except psycopg.Error as error:
                self._ended = str(error).strip().partition("\n")[0]
        if self._ended is not None:
            raise SnapshotEndedError(
                f"the session that held the snapshot was ended before everything was read: {self._ended}"
            )

    def watch(self, stop: threading.Event, on_end: Callable[[], None]) -> None:
        """Check the snapshot until `stop`; call `on_end` once if it ends before."""
        warned = self.standby
        while not stop.wait(CHECK_EVERY_S):
            try:
                warned = warned or self._warn_if_long()
            except psycopg.Error as error:
                self._ended = str(error).strip().partition("\n")[0]
                on_end()
                return

    def _warn_if_long(self) -> bool:
        commits, moment = self._one(_COMMITS)
        held_s = float(moment - self._begun)
        rate = float(commits - self._commits) / max(held_s, 1e-3)
        if held_s < self._hold_warning_s or rate < BUSY_COMMITS_PER_S:
            return False
        self._warn(
            f"the snapshot has been held for {held_s:.0f} s on a primary with {rate:.0f} commits per second; "
            "until it is released nothing that ends meanwhile can be cleaned up there; "
            "a standby can be read instead (--database-url)"
        )
        return True

    def _one(self, query: str, parameters: dict[str, str] | None = None) -> Any:
        row = self._connection.execute(query.encode(), parameters).fetchone()
        assert row is not None
        return row


def _server_of(connection: psycopg.Connection) -> Server:
    info = connection.info
    if info.host.startswith(("/", "@")):
        raise SourceError("Spark reads over TCP and the URL leads to a socket; name a host in it")
    return Server(
        info.hostaddr or info.host, info.port, info.dbname, info.user, info.password, info.get_parameters()
    )


def connected(url: str) -> psycopg.Connection:
    """Open a connection for a report. Raises psycopg.Error."""
    given = conninfo_to_dict(url)
    defaults: dict[str, str | int] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "tcp_user_timeout": SILENCE_TIMEOUT_S * 1000,
    }
    if "," in str(given.get("host", "")):
        # The URL does not choose among several servers: prefer a standby.
        defaults["target_session_attrs"] = "prefer-standby"
    missing = {name: value for name, value in defaults.items() if name not in given}
    return psycopg.connect(make_conninfo(url, application_name=APPLICATION, **missing), autocommit=True)


def require_source(url: str, tables: Iterable[Table]) -> None:
    """Check that a database can be read before Spark starts. Raises psycopg.Error and SourceError."""
    with connected(url) as connection:
        require_readable(connection, tables)


def require_readable(connection: psycopg.Connection, tables: Iterable[Table]) -> None:
    """Raise SourceError if the database lacks what is to be read, or the login may not read it."""
    tables = list(tables)
    wanted = {f"{table.name}.{column}" for table in tables for column in table.needs}
    rows = connection.execute(_COLUMNS, ([table.name for table in tables],)).fetchall()
    missing = wanted - {name for name, _ in rows}
    if missing:
        raise SourceError(
            f"the database has not what this release reads ({_some(missing)}): it is no database of Telesto, "
            "or of an older release; `telesto db current` tells"
        )
    withheld = wanted & {name for name, allowed in rows if not allowed}
    if withheld:
        raise SourceError(
            f"the login {connection.info.user!r} may not read {_some(withheld)}; "
            "it needs the role telesto_reader (GRANT telesto_reader TO ...)"
        )


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:MISSING_SHOWN]) + (" ..." if len(shown) > MISSING_SHOWN else "")


def _lock(connection: psycopg.Connection, tables: list[Table]) -> None:
    lockable = [sql.Identifier("telesto", table.name) for table in tables if not table.restricted]
    connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(LOCK_TIMEOUT_MS))
    connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.SQL(", ").join(lockable)))


@contextmanager
def held_snapshot(
    url: str,
    tables: Iterable[Table],
    warn: Warn,
    on_end: Callable[[], None] = lambda: None,
    hold_warning_s: float = HOLD_WARNING_S,
) -> Iterator[Snapshot]:
    """Hold a snapshot of the database while the block runs.

    Args:
        url: the database.
        tables: what will be read.
        warn: is told if a busy primary holds it for more than `hold_warning_s`.
        on_end: is called, from another thread, if the snapshot ends before the block.

    Raises psycopg.Error if the database refuses or cannot be reached, SourceError if it lacks what is to be
    read, or the login may not read it.
    """
    tables = list(tables)
    with connected(url) as connection:
        require_readable(connection, tables)
        connection.execute(_NO_LIMITS)
        connection.execute(_BEGIN)
        _lock(connection, tables)
        snapshot = Snapshot(connection, warn, hold_warning_s)
        for table in tables:
            if table.restricted:
                connection.execute(f"SELECT FROM ({table.query}) AS held LIMIT 0".encode())
        stop = threading.Event()
        watcher = threading.Thread(target=snapshot.watch, args=(stop, on_end), name="snapshot", daemon=True)
        watcher.start()
        try:
            yield snapshot
        finally:
            stop.set()
            watcher.join()
