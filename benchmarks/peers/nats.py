"""NATS JetStream: a stream in files, with the default sync and with sync always; nats-py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from telesto.benchmarks.peers.interface import TAKEN_AT_ONCE, WAIT_S, Address, Client, Peer, Sink
from telesto.benchmarks.peers.processes import HOST, ProgramServer

WORKERS: Final = "workers"
UNACKNOWLEDGED_MAX: Final = 65_536
FETCH_LEFT: Final = 1_000
_CONFIGURATION: Final = """
host: {host}
port: {port}
jetstream {{
  store_dir: "{store}"
{sync}}}
"""


class NatsServer(ProgramServer):
    """One server with JetStream; older ones that do not know `sync_interval: always` end at once."""

    program = "nats-server"

    def __init__(self, sync_always: bool) -> None:
        super().__init__("nats-always" if sync_always else "nats", "nats")
        self.sync = "sync_interval: always" if sync_always else "as by default: every two minutes"
        self._sync_always = sync_always

    def _arguments(self, home: Path) -> list[str]:
        store = self._process.own(home / "store")
        sync = "  sync_interval: always\n" if self._sync_always else ""
        configuration = home / "nats.conf"
        configuration.write_text(_CONFIGURATION.format(host=HOST, port=self.port, store=store, sync=sync))
        return ["-c", str(configuration)]

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{HOST}:{self.port}"


class NatsPeer(Peer):
    """A stream with the retention of a work queue and one durable pull consumer that all workers share."""

    module = __name__
    calls_overlap = True
    server: NatsServer

    def address(self) -> Address:
        """The server."""
        return {"url": self.server.url}

    async def make_queue(self, queue: str) -> None:
        """Make the stream and its consumer."""
        from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

        async with _jet_stream(self.server.url) as stream:
            await stream.add_stream(
                StreamConfig(
                    name=queue,
                    subjects=[queue],
                    retention=RetentionPolicy.WORK_QUEUE,
                    storage=StorageType.FILE,
                    num_replicas=1,
                )
            )
            consumer = ConsumerConfig(
                durable_name=WORKERS, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=UNACKNOWLEDGED_MAX
            )
            await stream.add_consumer(queue, consumer)

    async def left(self, queue: str) -> list[bytes]:
        """Read the stream with a new consumer: acknowledged messages are no longer in it."""
        from nats.js.api import AckPolicy, ConsumerConfig

        async with _jet_stream(self.server.url) as stream:
            # A work queue allows no second consumer.
            await stream.delete_consumer(queue, WORKERS)
            waiting = (await stream.stream_info(queue)).state.messages
            everything = ConsumerConfig(
                durable_name="audit", ack_policy=AckPolicy.EXPLICIT, max_ack_pending=-1
            )
            await stream.add_consumer(queue, everything)
            reader = await stream.pull_subscribe_bind(durable="audit", stream=queue)
            bodies: list[bytes] = []
            while len(bodies) < waiting:
                bodies += [message.data for message in await reader.fetch(FETCH_LEFT, timeout=10)]
            return bodies

    async def drop_queue(self, queue: str) -> None:
        """Delete the stream."""
        async with _jet_stream(self.server.url) as stream:
            await stream.delete_stream(queue)

    async def describe(self) -> dict[str, str]:
        """Versions, and how the stream is made and used."""
        return {
            "NATS": f"{self.server.version}, one server, default settings but for ports and files",
            "sync": self.server.sync,
            "client": f"nats-py {version('nats-py')}",
            "queue": "stream with storage = file, retention = workqueue, one replica; one durable consumer "
            f"with ack explicit and max_ack_pending = {UNACKNOWLEDGED_MAX}",
            "put": f"js.publish_async, up to {self.puts_at_once} before their acknowledgements are awaited",
            "consume": f"pull consumer, fetch({TAKEN_AT_ONCE}), msg.ack() for each message, unconfirmed",
        }


@asynccontextmanager
async def _jet_stream(url: str) -> AsyncIterator[Any]:
    """A connection that manages streams, for one block."""
    import nats

    connection = await nats.connect(url)
    try:
        yield connection.jetstream(timeout=60)
    finally:
        await connection.close()


class NatsClient:
    """One connection."""

    def __init__(self, connection: Any, queue: str) -> None:
        self._connection = connection
        self._stream = connection.jetstream(timeout=60)
        self._queue = queue

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Publish messages; return when all are acknowledged by the stream."""
        for acknowledged in [await self._stream.publish_async(self._queue, body) for body in bodies]:
            await acknowledged

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Fetch messages and acknowledge each."""
        reader = await self._stream.pull_subscribe_bind(durable=WORKERS, stream=self._queue)
        while not stop.is_set():
            try:
                messages = await reader.fetch(TAKEN_AT_ONCE, timeout=WAIT_S)
            except TimeoutError:
                continue
            delivered_at = time.monotonic()
            for message in messages:
                await message.ack()
            sink.acknowledged([message.data for message in messages], delivered_at)
        await reader.unsubscribe()

    async def close(self) -> None:
        """Send the rest, and disconnect."""
        await self._connection.drain()


async def connect(address: Address, queue: str) -> Client:
    """Open a client."""
    import nats

    return NatsClient(await nats.connect(address["url"]), queue)
