"""PgQ: events inserted in batches, one consumer that takes them by ticks, asyncpg."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import asyncpg

from telesto.benchmarks.peers.interface import Address, Client, Sink
from telesto.benchmarks.peers.postgres import PostgresClient, PostgresPeer
from telesto.benchmarks.tiers.connection import connected

CONSUMER: Final = "worker"
BETWEEN_TICKS_S: Final = 0.005
TICKER: Final = {"ticker_max_lag": "5 milliseconds", "ticker_idle_period": "1 second"}

_INSERT: Final = "SELECT pgq.insert_event($1, 'bench', data) FROM unnest($2::text[]) AS data"
_TICK: Final = "SELECT pgq.ticker($1)"
_NEXT: Final = "SELECT pgq.next_batch($1, $2) AS batch"
_EVENTS: Final = "SELECT ev_data FROM pgq.get_batch_events($1)"
_FINISH: Final = "SELECT pgq.finish_batch($1)"


class PgqPeer(PostgresPeer):
    """A queue with one consumer, which is also the ticker: a batch is what came between two ticks."""

    module = __name__
    consumers_max = 1

    async def install(self) -> None:
        """Make the extension."""
        async with connected(self.url) as connection:
            await connection.execute("CREATE EXTENSION pgq")

    async def make_queue(self, queue: str) -> None:
        """Make the queue, register the consumer."""
        async with connected(self.url) as connection:
            await connection.execute("SELECT pgq.create_queue($1)", queue)
            for name, value in TICKER.items():
                await connection.execute("SELECT pgq.set_queue_config($1, $2, $3)", queue, name, value)
            await connection.execute("SELECT pgq.register_consumer($1, $2)", queue, CONSUMER)

    async def left(self, queue: str) -> list[bytes]:
        """Take what the consumer has not finished, up to a tick that is made now."""
        bodies: list[bytes] = []
        async with connected(self.url) as connection:
            await connection.execute("SELECT pgq.force_tick($1)", queue)
            await connection.execute(_TICK, queue)
            while (batch := await connection.fetchval(_NEXT, queue, CONSUMER)) is not None:
                bodies += [row["ev_data"].encode() for row in await connection.fetch(_EVENTS, batch)]
                await connection.execute(_FINISH, batch)
        return bodies

    async def drop_queue(self, queue: str) -> None:
        """Drop the queue with its consumer."""
        async with connected(self.url) as connection:
            await connection.execute("SELECT pgq.drop_queue($1, true)", queue)

    async def describe(self) -> dict[str, str]:
        """Versions, and the functions that are called."""
        async with connected(self.url) as connection:
            version = await connection.fetchval("SELECT pgq.version()")
        ticker = ", ".join(f"{name} = {value}" for name, value in TICKER.items())
        return {
            "PgQ": f"{version}, asyncpg, prepared statements",
            "queue": f"one consumer (batches are for one at a time), which calls pgq.ticker itself; {ticker}",
            "put": f"pgq.insert_event over an array, up to {self.puts_at_once} events in one transaction",
            "consume": "pgq.next_batch, pgq.get_batch_events, pgq.finish_batch",
            **await super().describe(),
        }


class PgqClient(PostgresClient):
    """One connection."""

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Insert events in one transaction."""
        await self._fetch(_INSERT, self._queue, [body.decode() for body in bodies])

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Tick, take the next batch, finish it."""
        while not stop.is_set():
            await self._fetch(_TICK, self._queue)
            batch = (await self._fetch(_NEXT, self._queue, CONSUMER))[0]["batch"]
            if batch is None:
                await asyncio.sleep(BETWEEN_TICKS_S)
                continue
            rows = await self._fetch(_EVENTS, batch)
            delivered_at = time.monotonic()
            await self._fetch(_FINISH, batch)
            sink.acknowledged([row["ev_data"].encode() for row in rows], delivered_at)


async def connect(address: Address, queue: str) -> Client:
    """Open a client."""
    return PgqClient(await asyncpg.connect(address["url"]), queue)
