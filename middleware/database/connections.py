"""All connections of a middleware to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from telesto.middleware.common.failures import LOST, LostError, UnavailableError
from telesto.middleware.common.logs import logger
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.connection import DatabaseConnection, Gate
from telesto.middleware.database.dsn import Connection, session_limits
from telesto.middleware.database.primary import Epoch, Primary
from telesto.middleware.scheduling.single_request import Call, Row

_log = logger("database")


class DatabaseConnections:
    """Makes connections, one for each worker, and has a list of them.

    There is no pool: each worker has its own connection, which is opened when it is first needed.

    Attributes:
        gate: that of all connections but those that check the database.
        primary: the server that they connect to.
    """

    def __init__(
        self, settings: ServerSettings, *, on_connected: Callable[[], None], on_moved: Callable[[], None]
    ) -> None:
        """Makes no connection yet.

        Args:
            settings: those of the middleware.
            on_connected: called when a connection was opened.
            on_moved: called when another server has become the primary, after all connections were dropped.
        """
        self._settings = settings
        self._on_connected = on_connected
        self._on_moved = on_moved
        self._all: list[DatabaseConnection] = []
        self.gate = Gate()
        epoch = Epoch()
        self.primary = self._primary(settings.database_url.get_secret_value(), epoch)
        listen_url = settings.listen_database_url
        self._listened = (
            self.primary if listen_url is None else self._primary(listen_url.get_secret_value(), epoch)
        )

    def __len__(self) -> int:
        return len(self._all)

    def make(self, name: str, *, gated: bool = True, lock_wait_ms: int | None = None) -> DatabaseConnection:
        """Makes a connection for a worker. One that checks the database must not be gated.

        ``lock_wait_ms`` is how long its calls wait for a lock; None for ``lock_timeout_s``.
        """
        gate = self.gate if gated else None
        connect = partial(self._connect, limits=session_limits(self._settings, lock_wait_ms))
        connection = DatabaseConnection(name, connect, self._settings.database_backoff_s, gate)
        self._all.append(connection)
        return connection

    def pids(self) -> Iterator[int]:
        """The process ids of the backends."""
        for connection in self._all:
            pid = connection.pid
            if pid is not None:
                yield pid

    def busy_since(self, moment: float) -> list[DatabaseConnection]:
        """Returns the connections whose call began before a moment, by the loop's clock in seconds."""
        return [
            connection
            for connection in self._all
            if connection.busy_since is not None and connection.busy_since <= moment
        ]

    @property
    def lost_count(self) -> int:
        """How many calls were lost with their connections."""
        return sum(connection.lost_count for connection in self._all)

    async def connect_listener(self, name: str) -> Connection:
        """Opens a connection for LISTEN."""
        return await self._listened.connect(f"telesto {name}", session_limits(self._settings))

    def drop(self, reason: str, told: str = LOST) -> None:
        """Closes all connections at once. They are opened again when they are needed."""
        for connection in self._all:
            connection.drop(reason, told)

    def cut_off(self) -> None:
        """Closes all connections at once and for good."""
        for connection in self._all:
            connection.cut_off()

    async def close(self) -> None:
        """Closes all connections."""
        await asyncio.gather(self.primary.close(), self._listened.close())
        await asyncio.gather(*(connection.close() for connection in self._all))

    def _primary(self, url: str, epoch: Epoch) -> Primary:
        settings = self._settings
        return Primary(
            url,
            settings.database_connect_s,
            settings.database_silent_ms,
            epoch,
            self._moved,
        )

    async def _connect(self, name: str, limits: Mapping[str, str]) -> Connection:
        connection = await self.primary.connect(f"telesto {name}", limits)
        self._on_connected()
        return connection

    def _moved(self) -> None:
        self.drop("another server is the primary by now")
        self._on_moved()


def shared(connection: DatabaseConnection) -> Call:
    """Lets several tasks use a connection, one call at a time."""
    lock = asyncio.Lock()

    async def call(sql: str, *arguments: Any) -> list[Row]:
        async with lock:
            return await connection.call(sql, *arguments)

    return call


def shared_for_reading(connection: DatabaseConnection, limit_s: float) -> Call:
    """The same for calls that only read, which are given up after a time, in seconds.

    They raise UnavailableError then, as they do when the connection is lost. The next call makes a new one.
    """
    lock = asyncio.Lock()

    async def in_turn(sql: str, *arguments: Any) -> list[Row]:
        async with lock:
            try:
                return await connection.read(sql, *arguments)
            except asyncio.CancelledError:
                # A late answer would be taken for that of the next query.
                connection.drop()
                raise

    async def read(sql: str, *arguments: Any) -> list[Row]:
        try:
            async with asyncio.timeout(limit_s):
                return await in_turn(sql, *arguments)
        except TimeoutError as error:
            _log.warning("read_given_up", connection=connection.name, after_s=limit_s)
            raise UnavailableError("the database does not answer in time") from error
        except LostError as error:
            raise UnavailableError(str(error)) from error

    return read
