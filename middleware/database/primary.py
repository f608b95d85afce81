"""Finds the server that takes writes among those that a database URL names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from telesto.middleware.common.database_url import Server, read_database_url
from telesto.middleware.common.logs import logger
from telesto.middleware.database.dsn import (
    CONNECT_ERRORS,
    Connection,
    RejectedConnectionError,
    connect_to,
    limit_session,
    read_times_as_microseconds,
    reason_of,
)
from telesto.middleware.database.search import Found, Search
from telesto.middleware.database.server_status import ServerStatus, status_of

_log = logger("primary")


class NotPrimaryError(OSError):
    """A server answers but must not be used."""


class Epoch:
    """The latest primary that this process knows, so that a former one that comes back is not used again.

    A former primary that was frozen or cut off still takes writes. Its timeline shows that it is a former
    one.
    """

    def __init__(self) -> None:
        self.latest: ServerStatus | None = None

    def check(self, found: Found) -> None:
        """Raises NotPrimaryError for a server that must not be used."""
        if found.status.read_only:
            why = "it is a standby" if found.status.is_standby else "default_transaction_read_only is on"
            raise NotPrimaryError(f"{found.server} takes no writes: {why}")
        if self.latest is not None and self.latest.succeeds(found.status):
            raise NotPrimaryError(
                f"{found.server} is a former primary (timeline {found.status.history}, "
                f"by now it is {self.latest.history})"
            )

    def note(self, status: ServerStatus) -> bool:
        """Notes a primary. Returns True if it has replaced another one."""
        before, self.latest = self.latest, status
        return before is not None and before != status


class Primary:
    """Connects to the server that takes writes, and searches for it only when it has changed."""

    def __init__(
        self,
        url: str,
        connect_s: float,
        silent_ms: int,
        epoch: Epoch,
        on_moved: Callable[[], None] | None = None,
    ) -> None:
        """Reads the URL without connecting.

        Args:
            url: the database.
            connect_s: the longest time to connect to a server.
            silent_ms: the longest time without an acknowledgement of the server's kernel.
            epoch: tells a former primary from the current one.
            on_moved: called when another server has become the primary, so that connections to the former one
                are useless.
        """
        target = read_database_url(url)
        self._dsn = target.dsn
        self._servers = target.servers
        self._connect_s = target.connect_s or connect_s
        self._silent_ms = silent_ms
        self._epoch = epoch
        self._server = target.servers[0] if len(target.servers) == 1 else None
        self._search: asyncio.Task[Found] | None = None
        self._on_moved = on_moved

    async def connect(self, name: str, limits: Mapping[str, str] | None = None) -> Connection:
        """Opens a connection that takes writes, with the result of ``session_limits``. Raises CONNECT_ERRORS.

        It takes at most twice ``connect_s``, or five times with several servers.
        """
        if self._server is not None:
            try:
                return await self._enter(self._server, name, limits)
            except CONNECT_ERRORS:
                if len(self._servers) == 1:
                    raise
                self._server = None
        found = await self.look()
        return await self._enter(found.server, name, limits)

    async def look(self) -> Found:
        """Asks all servers at the same time and returns the primary. Raises CONNECT_ERRORS.

        Concurrent calls share one search.
        """
        if self._search is None:
            self._search = asyncio.create_task(self._ask_all(), name="look for the primary")
            self._search.add_done_callback(self._searched)
        return await asyncio.shield(self._search)

    def _note(self, found: Found) -> None:
        self._server = found.server
        if self._epoch.note(found.status):
            _log.warning("primary_moved", server=str(found.server), timeline=found.status.history)
            if self._on_moved is not None:
                self._on_moved()

    async def close(self) -> None:
        """Ends a search that is under way."""
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)

    def _searched(self, search: asyncio.Task[Found]) -> None:
        """Notes the result, even if the caller of ``look`` was cancelled."""
        self._search = None
        if not search.cancelled() and search.exception() is None:
            self._note(search.result())

    async def _enter(self, server: Server, name: str, limits: Mapping[str, str] | None) -> Connection:
        connection = await self._open(server, name)
        try:
            async with asyncio.timeout(self._connect_s):
                found = Found(server, await status_of(connection))
                self._epoch.check(found)
                await limit_session(connection, limits or {})
                await read_times_as_microseconds(connection)
        except BaseException:
            connection.terminate()
            raise
        self._note(found)
        return connection

    async def _open(self, server: Server, name: str) -> Connection:
        try:
            return await connect_to(server, self._dsn, name, self._connect_s, self._silent_ms)
        except TimeoutError as error:
            raise TimeoutError(reason_of(error)) from error

    async def _ask_all(self) -> Found:
        search = Search(self._servers, self._ask)
        try:
            return await search.run()
        finally:
            await search.close()

    async def _ask(self, server: Server) -> Found:
        """Asks one server. Raises OSError, also when it must not be used."""
        try:
            connection = await connect_to(server, self._dsn, "telesto look", self._connect_s, self._silent_ms)
            try:
                async with asyncio.timeout(self._connect_s):
                    found = Found(server, await status_of(connection))
            finally:
                connection.terminate()
        except CONNECT_ERRORS as error:
            failure = RejectedConnectionError if isinstance(error, RejectedConnectionError) else OSError
            raise failure(f"{server}: {reason_of(error)}") from error
        self._epoch.check(found)
        return found
