"""Telesto itself: the embedded PostgreSQL, one middleware, the asyncio client, exactly-once delivery.

What only the server needs is imported when it starts: load generators need only the client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telesto.benchmarks.peers.interface import TAKEN_AT_ONCE, WAIT_S, Address, Client, Peer, Sink
from telesto.client import AsyncTelestoClient

if TYPE_CHECKING:
    from telesto.benchmarks.tiers.service import Database, Middlewares

LOOKING_AFTER: Final = "bench-peers"
_LEFT: Final = """
SELECT body FROM telesto.messages WHERE queue_id = $1
UNION ALL SELECT body FROM telesto.deliveries WHERE queue_id = $1
UNION ALL SELECT body FROM telesto.leases WHERE queue_id = $1
"""


class TelestoServer:
    """The embedded PostgreSQL and one middleware, with TLS if that is to be measured."""

    def __init__(self, *, tls: bool = False) -> None:
        self._tls = tls
        self._stack = AsyncExitStack()
        self.url = ""
        self.database: Database | None = None
        self.middlewares: Middlewares | None = None

    async def start(self, directory: Path) -> None:
        """Start both tiers."""
        from telesto.benchmarks.tiers.service import describe_database, running_middlewares
        from telesto.db import schema
        from telesto.db.embedded.server import EmbeddedServer

        server = EmbeddedServer(directory / "data")
        await asyncio.to_thread(server.start)
        self._stack.push_async_callback(asyncio.to_thread, server.stop)
        await asyncio.to_thread(schema.upgrade, server.url)
        self.database = await describe_database(server.url)
        settings = _certificate(directory) if self._tls else {}
        self.middlewares = await self._stack.enter_async_context(
            running_middlewares(server.url, directory, settings=settings)
        )
        self.url = self.middlewares.urls[0]
        if self._tls:
            self.url = f"{self.url.replace('telesto:', 'telestos:')}/?tls_ca={directory / 'ca.pem'}"

    async def stop(self) -> None:
        """End both tiers."""
        await self._stack.aclose()

    def roots(self) -> Iterable[int]:
        """The middleware and the postmaster."""
        middlewares = self.middlewares.pids if self.middlewares else []
        return [*middlewares, *([self.database.postmaster] if self.database else [])]


def _certificate(directory: Path) -> dict[str, str]:
    """Write a certificate for this machine and its authority; return the settings that name it."""
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(directory / "server.pem")
    return {"TELESTO_TLS_CERTIFICATE": str(directory / "server.pem")}


class TelestoPeer(Peer):
    """A message has its own put, or shares it with others; consumers do not wait for answers to acks."""

    module = __name__
    calls_overlap = True
    server: TelestoServer

    def address(self) -> Address:
        """The middleware."""
        return {"url": self.server.url}

    async def make_queue(self, queue: str) -> None:
        """Create a queue with default settings."""
        async with self._client() as client:
            await client.create_queue(queue)

    async def left(self, queue: str) -> list[bytes]:
        """Read the tables: messages that wait, and those delivered but not confirmed."""
        from telesto.benchmarks.tiers.connection import connected

        async with self._client() as client:
            queue_id = (await client.get_queue_by_name(queue)).queue_id
        assert self.server.database is not None
        async with connected(self.server.database.url) as connection:
            return [bytes(row["body"]) for row in await connection.fetch(_LEFT, queue_id)]

    async def drop_queue(self, queue: str) -> None:
        """Delete the queue."""
        async with self._client() as client:
            await client.delete_queue((await client.get_queue_by_name(queue)).queue_id)

    async def describe(self) -> dict[str, str]:
        """PostgreSQL's version and settings; the middleware has default settings."""
        from telesto.benchmarks.peers.postgres import described

        assert self.server.database is not None
        several = self.puts_at_once > 1
        put = (
            f"put_many, {self.puts_at_once} messages a call" if several else "put_message, one call a message"
        )
        return {
            "delivery": "once; one middleware with its default settings",
            "put": f"AsyncTelestoClient.{put}",
            "consume": f"queue.consume, credit {TAKEN_AT_ONCE}, acknowledged without waiting for the answer",
            **await described(self.server.database.url),
        }

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[AsyncTelestoClient]:
        """A client that manages queues, for one block."""
        async with AsyncTelestoClient(self.address()["url"], name=LOOKING_AFTER) as client:
            await client.connect()
            yield client


class TelestoClientOfPeer:
    """One connection."""

    def __init__(self, client: AsyncTelestoClient, queue_id: int) -> None:
        self._client = client
        self._queue_id = queue_id

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Put messages; return when all are confirmed."""
        if len(bodies) == 1:
            await self._client.put_message(self._queue_id, bodies[0])
            return
        for result in await self._client.queue(self._queue_id).put_many(bodies):
            if result.error is not None:
                raise result.error

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Take and acknowledge messages until told to stop."""
        async with self._client.queue(self._queue_id).consume(credit=TAKEN_AT_ONCE) as consumer:
            while not stop.is_set():
                leased = await consumer.get(WAIT_S)
                if leased is None:
                    continue
                delivered_at = time.monotonic()
                async with leased:
                    pass
                sink.acknowledged((leased.body,), delivered_at)
        if consumer.lost:
            raise RuntimeError(f"{consumer.lost} messages were lost before they were acknowledged")

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()


async def connect(address: Address, queue: str) -> Client:
    """Open a client with a unique name."""
    client = AsyncTelestoClient(address["url"], name=f"peer-{time.monotonic_ns()}")
    await client.connect()
    return TelestoClientOfPeer(client, (await client.get_queue_by_name(queue)).queue_id)
