"""All connections of a middleware to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from telesto.middleware.common.failures import LOST
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.connection import Link
from telesto.middleware.database.dsn import Connection, session_limits
from telesto.middleware.database.gate import Gate
from telesto.middleware.database.primary import Epoch, Primary
from telesto.middleware.scheduling.single_request import Call, Row


class Links:
    """Makes links, one for each worker, and knows them all.

    There is no pool to wait for: each worker has its own link, connected when it is needed first.

    Attributes:
        gate: before all links but those that watch over the database.
        primary: where they lead.
    """

    def __init__(
        self, settings: ServerSettings, *, on_connected: Callable[[], None], on_moved: Callable[[], None]
    ) -> None:
        """Makes no link yet.

        Args:
            settings: those of the middleware.
            on_connected: called when there is a new backend.
            on_moved: called when another server has become the primary, after all links were dropped.
        """
        self._settings = settings
        self._on_connected = on_connected
        self._on_moved = on_moved
        self._links: list[Link] = []
        self.gate = Gate()
        epoch = Epoch()
        self.primary = self._primary(settings.database_url.get_secret_value(), epoch)
        listen_url = settings.listen_database_url
        self._listened = (
            self.primary if listen_url is None else self._primary(listen_url.get_secret_value(), epoch)
        )

    def __len__(self) -> int:
        return len(self._links)

    def make(self, name: str, *, gated: bool = True) -> Link:
        """Makes a link for a worker; without a gate if it is to find out how the database is."""
        gate = self.gate if gated else None
        link = Link(name, self._connect, self._settings.database_backoff_s, gate)
        self._links.append(link)
        return link

    def pids(self) -> Iterator[int]:
        """The process ids of the backends."""
        for link in self._links:
            pid = link.pid
            if pid is not None:
                yield pid

    def busy_since(self, moment: float) -> list[Link]:
        """The links whose call is under way since a moment or longer, by the loop's clock in seconds."""
        return [link for link in self._links if link.busy_since is not None and link.busy_since <= moment]

    @property
    def lost_count(self) -> int:
        """How many calls were lost with their connections."""
        return sum(link.lost_count for link in self._links)

    async def connect_listener(self, name: str) -> Connection:
        """Opens a connection for LISTEN."""
        return await self._listened.connect(f"telesto {name}")

    def drop(self, reason: str, told: str = LOST) -> None:
        """Ends all connections at once; they are opened again when they are needed."""
        for link in self._links:
            link.drop(reason, told)

    def cut_off(self) -> None:
        """Ends all connections at once and for good."""
        for link in self._links:
            link.cut_off()

    async def close(self) -> None:
        """Ends all connections."""
        await asyncio.gather(self.primary.close(), self._listened.close())
        await asyncio.gather(*(link.close() for link in self._links))

    def _primary(self, url: str, epoch: Epoch) -> Primary:
        settings = self._settings
        return Primary(
            url,
            settings.database_connect_s,
            settings.database_silent_ms,
            epoch,
            session_limits(settings),
            self._moved,
        )

    async def _connect(self, name: str) -> Connection:
        connection = await self.primary.connect(f"telesto {name}")
        self._on_connected()
        return connection

    def _moved(self) -> None:
        self.drop("another server is the primary by now")
        self._on_moved()


def shared(link: Link) -> Call:
    """Lets several pieces of background work take turns on a link."""
    lock = asyncio.Lock()

    async def call(sql: str, *arguments: Any) -> list[Row]:
        async with lock:
            return await link.call(sql, *arguments)

    return call
