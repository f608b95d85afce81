"""Detects that the database hangs, has another primary or waits for its standby, and ends calls to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from telesto.middleware.cluster.registry import Registry
from telesto.middleware.common.failures import (
    UNCONFIRMED,
    LostError,
    RefusedError,
    UnavailableError,
    standby_unavailable,
    unavailable,
)
from telesto.middleware.common.logs import logger
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.connection import DatabaseConnection
from telesto.middleware.database.connections import DatabaseConnections
from telesto.middleware.database.dsn import CONNECT_ERRORS

#: What the backends of this middleware wait for. A role may read this of its own backends.
WAITS = """
SELECT pid, coalesce(wait_event = 'SyncRep', false) FROM pg_stat_activity WHERE pid = ANY ($1::int[])
"""

_log = logger("database")


class DatabaseWatchdog:
    """Checks the database when the heartbeat or a call is late.

    A call has no time limit, because a call that is given up is in doubt. So the watchdog gives up calls only
    for one of these reasons:

    - Another server was promoted: all connections leave the former primary at once.
    - No server takes writes, or the primary does not answer, for ``heartbeat_timeout_s``: the middleware is
      cut off. It sends its clients away and refuses calls until a heartbeat succeeds.
    - The primary answers, but its commits wait for a synchronous standby that is not available: after
      ``standby_wait_s`` the waiting calls are in doubt, and calls that write are refused until a heartbeat,
      which is a commit, too, is confirmed. The commits go on waiting on the server, which cannot undo them.

    Attributes:
        work: the background task.
    """

    def __init__(
        self,
        connections: DatabaseConnections,
        registry: Registry,
        registry_connection: DatabaseConnection,
        settings: ServerSettings,
        clock: Callable[[], float],
        on_cut_off: Callable[[], None],
    ) -> None:
        """``on_cut_off`` is called when the middleware is cut off; ``clock`` is the loop's."""
        self._connections = connections
        self._registry = registry
        self._registry_connection = registry_connection
        self._connection = connections.make("watch", gated=False)
        self._clock = clock
        self._late_s = settings.database_late_s
        self._interval_s = settings.heartbeat_interval_s
        self._timeout_s = settings.heartbeat_timeout_s
        self._moved_at = 0.0
        self._standby_wait_s = settings.standby_wait_s
        self._unavailable = unavailable(settings.overload_retry_ms)
        self._standby_unavailable = standby_unavailable(settings.standby_retry_ms)
        self._on_cut_off = on_cut_off
        self.work = Periodic("database watch", self._look, period_s=settings.database_late_s)

    def moved(self) -> None:
        """Another server has become the primary."""
        self._moved_at = self._clock()
        self._connections.gate.open("the primary has moved")
        self._registry.poke()

    async def _look(self) -> None:
        if not self._late and not self._connections.busy_since(self._clock() - self._late_s):
            return
        waits = await self._waits()
        if self._late or waits is None:
            await self._look_for_primary()
        self._conclude(waits or {})

    @property
    def _silent_s(self) -> float:
        """For how long the same primary has confirmed no heartbeat."""
        return self._clock() - max(self._registry.beat_at, self._moved_at)

    @property
    def _late(self) -> bool:
        return self._silent_s > self._interval_s + self._late_s

    async def _look_for_primary(self) -> None:
        """Searches for the primary. If it is another one, ``moved`` is called. Raises nothing."""
        try:
            async with asyncio.timeout(self._late_s):  # the search goes on, and the next look joins it
                await self._connections.primary.look()
        except CONNECT_ERRORS as error:
            _log.debug("no_primary", error=str(error))

    async def _waits(self) -> dict[int, bool] | None:
        """Returns, for each live backend, whether it waits for a standby; None without an answer."""
        pids = sorted(set(self._connections.pids()))
        try:
            async with asyncio.timeout(self._late_s):
                rows = await self._connection.read(WAITS, pids)
        except (UnavailableError, LostError, RefusedError):
            return None
        except TimeoutError:
            # A late answer would be taken for that of the next query.
            self._connection.drop()
            return None
        return {row[0]: row[1] for row in rows}

    def _conclude(self, waits: dict[int, bool]) -> None:
        now = self._clock()
        if any(waits.values()):
            self._await_standby(waits, now)
        elif self._silent_s > self._timeout_s:
            self._cut_off(waits, now)

    # --- no synchronous standby --------------------------------------------------------------

    def _await_standby(self, waits: dict[int, bool], now: float) -> None:
        if not self._standby_wait_s:
            return
        since = now - self._standby_wait_s
        overdue = any(
            connection.pid is not None and waits.get(connection.pid)
            for connection in self._connections.busy_since(since)
        )
        if not overdue and self._connections.gate.is_open:
            return
        if self._connections.gate.shut_for_writes is None:
            _log.warning("standby_unavailable", waiting=sum(waits.values()))
            self._connections.gate.shut_for_writes = self._standby_unavailable
        for connection in self._connections.busy_since(now - self._late_s):
            # The heartbeat goes on waiting: its answer shows that the standby is back.
            if connection is not self._registry_connection and connection is not self._connection:
                connection.drop("no synchronous standby confirms the commit", UNCONFIRMED)

    # --- no database -------------------------------------------------------------------------

    def _cut_off(self, waits: dict[int, bool], now: float) -> None:
        if self._connections.gate.shut is None:
            _log.warning("cut_off", silent_s=round(self._silent_s, 1))
            self._connections.gate.shut = self._unavailable
            self._connections.drop("the database does not answer")
            self._on_cut_off()
        elif (
            self._registry_connection.pid not in waits
            and self._registry_connection in self._connections.busy_since(now - self._timeout_s)
        ):
            # Its backend is gone or does not answer, so the heartbeat needs a new connection.
            self._registry_connection.drop("the database does not answer")
