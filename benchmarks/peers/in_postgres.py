"""What the peers that live in PostgreSQL have in common: a database of their own, and asyncpg connections."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from telesto.benchmarks.peers.interface import Address, Peer

if TYPE_CHECKING:
    from telesto.benchmarks.peers.postgres import PostgresServer


class PostgresPeer(Peer):
    """A peer with a database of its own on a server that it may share."""

    server: PostgresServer
    url: str = ""

    async def prepare(self) -> None:
        """Make the database and install the peer into it."""
        self.url = await self.server.make_database(self.name)
        await self.install()

    @abstractmethod
    async def install(self) -> None:
        """Make the peer's tables and functions."""

    def address(self) -> Address:
        """The database, and how to use it."""
        return {"url": self.url, "at_once": self.puts_at_once}

    async def describe(self) -> dict[str, str]:
        """PostgreSQL's version and settings."""
        from telesto.benchmarks.peers.postgres import described

        return await described(self.url)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection to the database, for one block."""
        connection = await asyncpg.connect(self.url)
        try:
            yield connection
        finally:
            await connection.close()


class PostgresClient:
    """A connection on which calls wait for each other, as PostgreSQL's protocol and asyncpg have it."""

    def __init__(self, connection: asyncpg.Connection, queue: str) -> None:
        self._connection = connection
        self._queue = queue
        self._turn = asyncio.Lock()

    async def _fetch(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Run a statement, which is prepared at its first use, as a transaction of its own."""
        async with self._turn:
            return await self._connection.fetch(statement, *arguments)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()
