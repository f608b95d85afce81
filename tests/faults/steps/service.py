"""What the step tests share: sites on the test's database, clients, and eyes on the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from telesto.client import AsyncTelestoClient, ClientOptions
from telesto.db import schema

from ..service.cluster import Cluster, Site
from ..service.logs import middleware_complaints
from ..waiting import until

#: Nothing that a test waits for takes longer, or the test fails.
PATIENCE_S = 60.0
#: A client that leaves a silent middleware soon.
QUICK = {
    "try_timeout": 0.5,
    "keep_alive": 0.5,
    "connect_timeout": 0.5,
    "call_timeout": PATIENCE_S,
    "greeting_timeout": PATIENCE_S,
    "close_timeout": 0.5,
    "backoff_max": 0.1,
    "max_tries": 100,
}


class Service:
    """A cluster, its clients, and a connection to its database.

    Attributes:
        sites: the middlewares with their proxies.
        database: a connection that is no part of the service.
    """

    def __init__(self, cluster: Cluster, database_url: str, database: asyncpg.Connection[Any]) -> None:
        self._cluster = cluster
        self._database_url = database_url
        self._clients: list[AsyncTelestoClient] = []
        self.sites: list[Site] = cluster.sites
        self.database = database

    async def client(
        self, name: str, *order: int, url: str | None = None, **options: Any
    ) -> AsyncTelestoClient:
        """Connects a client to the sites in this order; it takes over what a client of this name left."""
        client = AsyncTelestoClient(
            url or self._cluster.url(*order),
            options=ClientOptions(**(QUICK | options)),
            name=name,
            existing="take_over",
        )
        self._clients.append(client)
        await client.connect()
        return client

    async def recover(self) -> None:
        """Mends everything and closes all clients; returns when all middlewares serve."""
        for site in self.sites:
            site.heal()
        clients, self._clients = self._clients, []
        await asyncio.gather(*(client.close() for client in clients))
        await self.until_all_serve()

    async def settled(self) -> None:
        """Checks that the rows do not contradict each other, and that no middleware complained."""
        assert await asyncio.to_thread(schema.check, self._database_url) == []
        for site in self.sites:
            assert list(middleware_complaints(site.log)) == []

    async def until_all_serve(self) -> None:
        """Returns when each middleware has given two signs of life from now on and knows the others."""
        for _ in range(2):
            now = await self.database.fetchval("SELECT clock_timestamp()")
            await until(partial(self._all_alive_since, now))

    async def _all_alive_since(self, then: datetime) -> bool:
        count: int = await self.database.fetchval(
            "SELECT count(DISTINCT address) FROM telesto.middlewares WHERE heartbeat_at > $1", then
        )
        return count == len(self.sites)

    async def messages(self, queue_id: int) -> int:
        """Counts the messages that wait in a queue."""
        return await self._count("messages", "queue_id", queue_id)

    async def unconfirmed(self, *clients: AsyncTelestoClient) -> int:
        """Counts what clients have not confirmed: results and messages."""
        count = 0
        for client in clients:
            for table in ("operations", "deliveries"):
                count += await self._count(table, "client_id", client.client_id or 0)
        return count

    async def _count(self, table: str, column: str, value: int) -> int:
        count: int = await self.database.fetchval(
            f"SELECT count(*) FROM telesto.{table} WHERE {column} = $1", value
        )
        return count

    @asynccontextmanager
    async def locked(self, key_function: str, key: int) -> AsyncIterator[asyncpg.Connection[Any]]:
        """Holds one of the service's advisory locks, so that transactions stop in their middle."""
        holder = await asyncpg.connect(self._database_url)
        try:
            await holder.execute("BEGIN")
            await holder.execute(f"SELECT pg_advisory_xact_lock(telesto.{key_function}($1))", key)
            yield holder
        finally:
            await holder.close()

    async def until_blocked(self) -> None:
        """Returns when a transaction waits for a lock."""
        await until(
            lambda: self.database.fetchval(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
        )


@asynccontextmanager
async def running(
    directory: Path, database_url: str, count: int = 2, **settings: Any
) -> AsyncIterator[Service]:
    """Runs a service."""
    async with Cluster(directory, database_url, count, settings) as cluster:
        database = await asyncpg.connect(database_url)
        service = Service(cluster, database_url, database)
        try:
            yield service
        finally:
            await service.recover()
            await database.close()


async def read_now(client: AsyncTelestoClient, queue_id: int) -> list[tuple[bytes, bool]]:
    """Takes all that is there for a client: bodies, and whether they are redelivered."""
    taken: list[tuple[bytes, bool]] = []
    while messages := await client.queue(queue_id).get_many(max_messages=100, timeout=0):
        taken += [(message.body, message.redelivered) for message in messages]
    return taken
