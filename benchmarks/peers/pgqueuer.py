"""pgqueuer: jobs enqueued in batches, queue managers that take them in batches, asyncpg."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import version
from typing import Any, Final

import asyncpg

from telesto.benchmarks.peers.interface import WAIT_S, Address, Client, Sink
from telesto.benchmarks.peers.postgres import PostgresClient, PostgresPeer
from telesto.benchmarks.tiers.connection import connected

BATCH: Final = 100


class PgqueuerPeer(PostgresPeer):
    """A job for each message; every consumer is a queue manager."""

    module = __name__

    async def install(self) -> None:
        """Install the schema with its default durability: every table is logged."""
        from pgqueuer import AsyncpgDriver, Queries

        async with connected(self.url) as connection:
            await Queries(AsyncpgDriver(connection)).install()

    async def make_queue(self, queue: str) -> None:
        """Do nothing: a queue is the name of an entry point."""

    async def left(self, queue: str) -> list[bytes]:
        """Read the table: finished jobs are moved to the log."""
        async with connected(self.url) as connection:
            rows = await connection.fetch("SELECT payload FROM pgqueuer WHERE entrypoint = $1", queue)
        return [bytes(row["payload"]) for row in rows]

    async def drop_queue(self, queue: str) -> None:
        """Empty the tables, so that every run begins alike."""
        async with connected(self.url) as connection:
            await connection.execute("TRUNCATE pgqueuer, pgqueuer_log CASCADE")

    async def describe(self) -> dict[str, str]:
        """Versions, and how jobs are enqueued and processed."""
        return {
            "pgqueuer": f"{version('pgqueuer')}, AsyncpgDriver, durability as by default (durable)",
            "put": f"Queries.enqueue with lists of up to {self.puts_at_once} jobs",
            "consume": f"QueueManager.run(batch_size={BATCH})",
            **await super().describe(),
        }


class PgqueuerClient(PostgresClient):
    """One connection."""

    def __init__(self, connection: asyncpg.Connection, queue: str) -> None:
        from pgqueuer import AsyncpgDriver, Queries

        super().__init__(connection, queue)
        self._queries = Queries(AsyncpgDriver(connection))

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Enqueue jobs in one statement."""
        count = len(bodies)
        await self._queries.enqueue([self._queue] * count, list(bodies), [0] * count)

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Run a queue manager; at the end it finishes its jobs."""
        from pgqueuer import QueueManager

        manager = QueueManager(self._queries)

        async def work(job: Any) -> None:
            # The library acknowledges when this returns, without notice.
            sink.acknowledged((job.payload,), time.monotonic())

        manager.entrypoint(self._queue)(work)
        running = asyncio.create_task(
            manager.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=WAIT_S))
        )
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            manager.shutdown.set()
        await running


async def connect(address: Address, queue: str) -> Client:
    """Open a client."""
    return PgqueuerClient(await asyncpg.connect(address["url"]), queue)
