"""NATS JetStream: a stream in files, with the default sync and with sync always; nats-py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

from telesto.benchmarks.peers.interface import (
    TAKEN_AT_ONCE,
    WAIT_S,
    Address,
    Client,
    Peer,
    PeerUnavailableError,
    Sink,
)
from telesto.benchmarks.peers.processes import (
    HOST,
    ServerProcess,
    find_program,
    free_port,
    version_line,
)

SERVER: Final = "nats-server"
ACCOUNT: Final = "nats"
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


class NatsServer:
    """One server with JetStream."""

    def __init__(self, sync_always: bool) -> None:
        self._process = ServerProcess("nats-always" if sync_always else "nats", ACCOUNT)
        self._sync_always = sync_always
        self._port = 0
        self.version = ""

    async def start(self, directory: Path) -> None:
        """Start the server; older ones that do not know `sync_interval: always` end at once."""
        program = find_program(SERVER)
        if program is None:
            raise PeerUnavailableError("nats-server is not installed")
        self.version = version_line(program, "--version")
        self._port = free_port()
        home = self._process.own(directory / "nats")
        store = self._process.own(home / "store")
        sync = "  sync_interval: always\n" if self._sync_always else ""
        configuration = home / "nats.conf"
        configuration.write_text(_CONFIGURATION.format(host=HOST, port=self._port, store=store, sync=sync))
        self._process.spawn([program, "-c", str(configuration)], home)
        await self._process.listening(self._port)

    async def stop(self) -> None:
        """End it."""
        await self._process.stop()

    def roots(self) -> Iterable[int]:
        """The server."""
        return [self._process.pid]

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{HOST}:{self._port}"


class NatsPeer(Peer):
    """A stream with the retention of a work queue and one durable pull consumer that all workers share."""

    module = __name__
    calls_overlap = True

    def __init__(self, name: str, server: NatsServer, sync: str, puts_at_once: int) -> None:
        self.name = name
        self.server: NatsServer = server
        self.puts_at_once = puts_at_once
        self._sync = sync

    def address(self) -> Address:
        """The server."""
        return {"url": self.server.url}

    async def make_queue(self, queue: str) -> None:
        """Make the stream and its consumer."""
        from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

        async with _JetStream(self.server.url) as stream:
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
        """Read the stream: what is acknowledged is no longer in it. A fresh consumer sees it all."""
        from nats.js.api import AckPolicy, ConsumerConfig

        async with _JetStream(self.server.url) as stream:
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
        async with _JetStream(self.server.url) as stream:
            await stream.delete_stream(queue)

    async def describe(self) -> dict[str, str]:
        """Versions, and how the stream is made and used."""
        return {
            "NATS": f"{self.server.version}, one server, default settings but for ports and files",
            "sync": self._sync,
            "client": f"nats-py {version('nats-py')}",
            "queue": "stream with storage = file, retention = workqueue, one replica; one durable consumer "
            f"with ack explicit and max_ack_pending = {UNACKNOWLEDGED_MAX}",
            "put": f"js.publish_async, up to {self.puts_at_once} before their acknowledgements are awaited",
            "consume": f"pull consumer, fetch({TAKEN_AT_ONCE}), msg.ack() for each message, unconfirmed",
        }


class _JetStream:
    """A connection for looking after streams, for one block."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    async def __aenter__(self) -> Any:
        import nats

        self._connection = await nats.connect(self._url)
        return self._connection.jetstream(timeout=60)

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()


class NatsClient:
    """One connection."""

    def __init__(self, connection: Any, queue: str) -> None:
        self._connection = connection
        self._stream = connection.jetstream(timeout=60)
        self._queue = queue

    @classmethod
    async def open(cls, url: str, queue: str) -> Self:
        """Connect."""
        import nats

        return cls(await nats.connect(url), queue)

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
        """Send what is still to be sent, and disconnect."""
        await self._connection.drain()


async def connect(address: Address, queue: str) -> Client:
    """Open a client."""
    return await NatsClient.open(address["url"], queue)
