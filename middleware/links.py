"""All connections of a middleware to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from telesto.middleware.dsn import Connection, connect
from telesto.middleware.link import Link
from telesto.middleware.settings import ServerSettings
from telesto.middleware.single import Call, Row


class Links:
    """Makes links, one for each worker, and knows them all.

    There is no pool to wait for: each worker has its own link, connected when it is needed first.

    Attributes:
        on_connected: called when there is a new backend.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._links: list[Link] = []
        self.on_connected: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._links)

    def make(self, name: str) -> Link:
        """Makes a link for a worker."""
        link = Link(name, self._connect, self._settings.database_backoff_s)
        self._links.append(link)
        return link

    def pids(self) -> Iterator[int]:
        """The process ids of the backends."""
        for link in self._links:
            pid = link.pid
            if pid is not None:
                yield pid

    @property
    def lost_count(self) -> int:
        """How many calls were lost with their connections."""
        return sum(link.lost_count for link in self._links)

    async def connect_listener(self, name: str) -> Connection:
        """Opens a connection for LISTEN."""
        url = self._settings.listen_database_url or self._settings.database_url
        return await self._open(url.get_secret_value(), name)

    def drop(self) -> None:
        """Ends all connections at once; they are opened again when they are needed."""
        for link in self._links:
            link.drop()

    async def close(self) -> None:
        """Ends all connections."""
        await asyncio.gather(*(link.close() for link in self._links))

    async def _connect(self, name: str) -> Connection:
        connection = await self._open(self._settings.database_url.get_secret_value(), name)
        self.on_connected()
        return connection

    async def _open(self, url: str, name: str) -> Connection:
        settings = self._settings
        return await connect(url, f"telesto {name}", settings.database_connect_s, settings.database_silent_ms)


def shared(link: Link) -> Call:
    """Lets several pieces of background work take turns on a link."""
    lock = asyncio.Lock()

    async def call(sql: str, *arguments: Any) -> list[Row]:
        async with lock:
            return await link.call(sql, *arguments)

    return call
