"""PostgreSQL servers with the settings of Telesto's own, and what the peers in PostgreSQL share."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from telesto.benchmarks.peers.interface import Address, Peer, PeerUnavailableError
from telesto.benchmarks.tiers.connection import connected, settings_of

if TYPE_CHECKING:
    from telesto.db.embedded.server import EmbeddedServer


class PostgresServer:
    """An embedded PostgreSQL; `binaries` is the directory of its programs, by default Telesto's own."""

    def __init__(self, binaries: Path | None = None) -> None:
        self._binaries = binaries
        self._server: EmbeddedServer | None = None

    @property
    def url(self) -> str:
        """Its URL."""
        assert self._server is not None
        return self._server.url

    async def start(self, directory: Path) -> None:
        """Create a cluster and start it. Raises PeerUnavailableError."""
        from telesto.db.embedded.server import EmbeddedServer, EmbeddedServerError

        server = EmbeddedServer(directory / "data", binaries=self._binaries)
        try:
            await asyncio.to_thread(server.start)
        except EmbeddedServerError as error:
            raise PeerUnavailableError(str(error)) from error
        self._server = server

    async def stop(self) -> None:
        """End it."""
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)

    def roots(self) -> Iterable[int]:
        """The postmaster."""
        return [self._server.pid] if self._server is not None and self._server.pid else []

    async def make_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        async with connected(self.url) as connection:
            await connection.execute(f'CREATE DATABASE "{name}"')
        return f"{self.url.rpartition('/')[0]}/{name}"


async def described(url: str) -> dict[str, str]:
    """Return the version and the settings of a server that matter for figures."""
    async with connected(url) as connection:
        shown = await settings_of(connection)
    version = shown.pop("server_version")
    settings = ", ".join(f"{name} = {value}" for name, value in shown.items())
    return {"PostgreSQL": f"{version}; Telesto's settings for an embedded server: {settings}"}


class PostgresPeer(Peer):
    """A peer with its own database on a server that it may share."""

    server: PostgresServer
    url: str = ""

    async def prepare(self) -> None:
        """Create the database and install the peer in it."""
        self.url = await self.server.make_database(self.name)
        await self.install()

    @abstractmethod
    async def install(self) -> None:
        """Create the peer's tables and functions."""

    def address(self) -> Address:
        """The URL of the database, and the size of a batch."""
        return {"url": self.url, "at_once": self.puts_at_once}

    async def describe(self) -> dict[str, str]:
        """PostgreSQL's version and settings."""
        return await described(self.url)


class PostgresClient:
    """A connection whose calls wait for each other, as PostgreSQL's protocol requires."""

    def __init__(self, connection: asyncpg.Connection, queue: str) -> None:
        self._connection = connection
        self._queue = queue
        self._turn = asyncio.Lock()

    async def _fetch(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Execute a statement, prepared at its first use, as its own transaction."""
        async with self._turn:
            return await self._connection.fetch(statement, *arguments)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()
