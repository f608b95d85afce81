"""PGMQ: its SQL from its own Python package, by single calls and by batches, asyncpg."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import asyncpg

from telesto.benchmarks.peers.interface import Address, Client, Sink
from telesto.benchmarks.peers.postgres import PostgresClient, PostgresPeer
from telesto.benchmarks.tiers.connection import connected

LEASE_S: Final = 60
POLL_S: Final = 1
POLL_INTERVAL_MS: Final = 5
READ_AT_ONCE: Final = 256

_SEND: Final = "SELECT pgmq.send($1::text, $2::jsonb)"
_SEND_BATCH: Final = "SELECT pgmq.send_batch($1::text, $2::jsonb[])"
_READ: Final = (
    f"SELECT msg_id, message FROM pgmq.read_with_poll($1::text, {LEASE_S}, $2, {POLL_S}, {POLL_INTERVAL_MS})"
)
_DELETE: Final = "SELECT pgmq.delete($1::text, $2::bigint)"
_DELETE_BATCH: Final = "SELECT pgmq.delete($1::text, $2::bigint[])"


class PgmqPeer(PostgresPeer):
    """Messages are JSON texts; each has its own call, or many share one."""

    module = __name__

    async def install(self) -> None:
        """Run the SQL."""
        from pgmq.install import get_embedded_install_sql

        async with connected(self.url) as connection:
            await connection.execute(get_embedded_install_sql())

    async def make_queue(self, queue: str) -> None:
        """Make a logged, unpartitioned queue."""
        async with connected(self.url) as connection:
            await connection.execute("SELECT pgmq.create($1)", queue)

    async def left(self, queue: str) -> list[bytes]:
        """Read the queue's table: messages that were read but not deleted are still in it."""
        async with connected(self.url) as connection:
            rows = await connection.fetch(f"SELECT message #>> '{{}}' AS body FROM pgmq.\"q_{queue}\"")
        return [row["body"].encode() for row in rows]

    async def drop_queue(self, queue: str) -> None:
        """Drop the queue."""
        async with connected(self.url) as connection:
            await connection.execute("SELECT pgmq.drop_queue($1)", queue)

    async def describe(self) -> dict[str, str]:
        """Versions, and the functions that are called."""
        from pgmq.install import get_embedded_sql_version

        batch = self.puts_at_once > 1
        send = f"pgmq.send_batch, up to {self.puts_at_once} messages" if batch else "pgmq.send, one a message"
        taken = READ_AT_ONCE if batch else 1
        return {
            "PGMQ": f"{get_embedded_sql_version()}, asyncpg, prepared statements, calls one at a time",
            "put": send,
            "consume": f"pgmq.read_with_poll, qty {taken}, poll_interval_ms {POLL_INTERVAL_MS}, then "
            + ("pgmq.delete of all of them" if batch else "pgmq.delete of the one"),
            **await super().describe(),
        }


class PgmqClient(PostgresClient):
    """One connection."""

    def __init__(self, connection: asyncpg.Connection, queue: str, at_once: int) -> None:
        super().__init__(connection, queue)
        self._batch = at_once > 1

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Send messages."""
        texts = [f'"{body.decode()}"' for body in bodies]
        if self._batch:
            await self._fetch(_SEND_BATCH, self._queue, texts)
        else:
            await self._fetch(_SEND, self._queue, texts[0])

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Read and delete."""
        at_most = READ_AT_ONCE if self._batch else 1
        while not stop.is_set():
            rows = await self._fetch(_READ, self._queue, at_most)
            if not rows:
                continue
            delivered_at = time.monotonic()
            identities = [row["msg_id"] for row in rows]
            if self._batch:
                await self._fetch(_DELETE_BATCH, self._queue, identities)
            else:
                await self._fetch(_DELETE, self._queue, identities[0])
            sink.acknowledged([row["message"].strip('"').encode() for row in rows], delivered_at)


async def connect(address: Address, queue: str) -> Client:
    """Open a client."""
    return PgmqClient(await asyncpg.connect(address["url"]), queue, address["at_once"])
