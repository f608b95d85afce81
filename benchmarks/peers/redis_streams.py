"""Redis Streams: an append-only file that is flushed before every answer, pipelines, redis-py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from telesto.benchmarks.peers.interface import TAKEN_AT_ONCE, WAIT_S, Address, Client, Peer, Sink
from telesto.benchmarks.peers.processes import HOST, ProgramServer

GROUP: Final = "workers"
FIELD: Final = "b"
SETTINGS: Final = {"appendonly": "yes", "appendfsync": "always", "save": ""}


class RedisServer(ProgramServer):
    """One server."""

    program = "redis-server"

    def __init__(self) -> None:
        super().__init__("redis", "redis")

    def _arguments(self, home: Path) -> list[str]:
        settings = {"bind": HOST, "port": str(self.port), "dir": str(home), "daemonize": "no", **SETTINGS}
        return [part for name, value in settings.items() for part in (f"--{name}", value)]


class RedisPeer(Peer):
    """A stream with one consumer group; the messages in flight on a connection are one pipeline."""

    module = __name__
    server: RedisServer

    def address(self) -> Address:
        """The server."""
        return {"port": self.server.port}

    async def make_queue(self, queue: str) -> None:
        """Make the stream and its group."""
        async with _redis(self.address()) as redis:
            await redis.xgroup_create(queue, GROUP, id="0", mkstream=True)

    async def left(self, queue: str) -> list[bytes]:
        """Read the stream: consumers delete acknowledged messages."""
        async with _redis(self.address()) as redis:
            return [fields[FIELD.encode()] for _, fields in await redis.xrange(queue)]

    async def drop_queue(self, queue: str) -> None:
        """Delete the stream."""
        async with _redis(self.address()) as redis:
            await redis.delete(queue)

    async def describe(self) -> dict[str, str]:
        """Versions, settings, and how the stream is used."""
        settings = ", ".join(f'{name} "{value}"' for name, value in SETTINGS.items())
        return {
            "Redis": f"{self.server.version.partition(' sha=')[0]}; {settings}",
            "client": f"redis-py {version('redis')} with hiredis {version('hiredis')}",
            "put": f"XADD, pipelines of up to {self.puts_at_once} without a transaction",
            "consume": f"XREADGROUP COUNT {TAKEN_AT_ONCE} BLOCK, then XACK and XDEL in one pipeline",
        }


class RedisClient:
    """One connection."""

    def __init__(self, redis: Any, queue: str) -> None:
        self._redis = redis
        self._queue = queue

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Add messages in one pipeline; the answers come after the flush."""
        pipeline = self._redis.pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(self._queue, {FIELD: body})
        await pipeline.execute()

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Read, acknowledge and delete."""
        consumer, field = f"worker-{time.monotonic_ns()}", FIELD.encode()
        while not stop.is_set():
            found = await self._redis.xreadgroup(
                GROUP, consumer, {self._queue: ">"}, count=TAKEN_AT_ONCE, block=int(1000 * WAIT_S)
            )
            if not found:
                continue
            delivered_at = time.monotonic()
            entries = _entries(found)
            identities = [identity for identity, _ in entries]
            pipeline = self._redis.pipeline(transaction=False)
            pipeline.xack(self._queue, GROUP, *identities)
            pipeline.xdel(self._queue, *identities)
            await pipeline.execute()
            sink.acknowledged([fields[field] for _, fields in entries], delivered_at)

    async def close(self) -> None:
        """Disconnect."""
        await self._redis.aclose()


def _entries(found: Any) -> list[Any]:
    """Return the entries of the stream that was read, in either form of the protocol."""
    streams = list(found.values()) if isinstance(found, dict) else [entries for _, entries in found]
    return [entry for stream in streams for entry in _flat(stream)]


def _flat(entries: Any) -> list[Any]:
    """In the newer form the entries of a stream are a list within a list."""
    nested = entries and isinstance(entries[0], list)
    return [entry for part in entries for entry in part] if nested else list(entries)


def _redis(address: Address) -> Any:
    from redis.asyncio import Redis

    return Redis(host=HOST, port=address["port"], single_connection_client=True)


async def connect(address: Address, queue: str) -> Client:
    """Open a client."""
    redis = _redis(address)
    await redis.ping()
    return RedisClient(redis, queue)
