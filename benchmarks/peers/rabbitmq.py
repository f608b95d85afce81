"""RabbitMQ: a durable classic queue and a quorum queue, publisher confirms, aio-pika."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from telesto.benchmarks.peers.interface import (
    TAKEN_AT_ONCE,
    WAIT_S,
    Address,
    Client,
    Peer,
    PeerUnavailableError,
    Sink,
)
from telesto.benchmarks.peers.processes import HOST, ServerProcess, find_program, free_port

ACCOUNT: Final = "rabbitmq"
# The package's own script, not the wrapper in /usr/sbin, which insists on the package's directories.
SERVER: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
EPMD: Final = "epmd"
PERSISTENT: Final = 2
_CONFIGURATION: Final = """
listeners.tcp.1 = {host}:{port}
loopback_users.guest = true
# Nothing but the queues: the memory timer and the disk timer are not what is compared.
vm_memory_high_watermark.relative = 0.6
disk_free_limit.absolute = 1GB
log.file.level = warning
"""


class RabbitServer:
    """One node with its own name service, so that nothing keeps running and no other node is met."""

    def __init__(self) -> None:
        self._names = ServerProcess("epmd", ACCOUNT)
        self._node = ServerProcess("rabbitmq", ACCOUNT)
        self.port = 0

    async def start(self, directory: Path) -> None:
        """Start the name service and the node."""
        epmd = find_program(EPMD)
        if epmd is None or find_program(SERVER) is None:
            raise PeerUnavailableError("rabbitmq-server is not installed")
        home = self._node.own(directory / "rabbitmq")
        self.port, names_port, distribution_port = free_port(), free_port(), free_port()
        configuration = home / "rabbitmq.conf"
        configuration.write_text(_CONFIGURATION.format(host=HOST, port=self.port))
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "ERL_EPMD_PORT": str(names_port),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": f"telesto-bench-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_CONFIG_FILE": str(configuration),
            "RABBITMQ_CONF_ENV_FILE": str(home / "no-environment-file"),
            "RABBITMQ_MNESIA_BASE": str(self._node.own(home / "data")),
            "RABBITMQ_LOG_BASE": str(self._node.own(home / "log")),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "no-plugins"),
            "RABBITMQ_PID_FILE": str(home / "pid"),
        }
        self._names.spawn([epmd, "-port", str(names_port), "-address", HOST], home, environment)
        await self._names.listening(names_port)
        self._node.spawn([SERVER], home, environment)
        # aio-pika logs every attempt to connect before the node listens.
        await self._node.listening(self.port)
        await self._node.ready(self._answers)

    async def stop(self) -> None:
        """End the node, then the name service."""
        await self._node.stop()
        await self._names.stop()

    def roots(self) -> Iterable[int]:
        """The node."""
        return [self._node.pid]

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"amqp://guest:guest@{HOST}:{self.port}/"

    async def _answers(self) -> None:
        async with _connected(self.url):
            return


class RabbitPeer(Peer):
    """A queue of one type; every message is persistent and confirmed individually."""

    module = __name__
    server: RabbitServer

    def __init__(self, name: str, server: RabbitServer, queue_type: str) -> None:
        super().__init__(name, server)
        self._queue_type = queue_type

    def address(self) -> Address:
        """The node."""
        return {"url": self.server.url}

    async def make_queue(self, queue: str) -> None:
        """Declare a durable queue."""
        async with _connected(self.server.url) as connection:
            channel = await connection.channel()
            arguments = {"x-queue-type": self._queue_type}
            await channel.declare_queue(queue, durable=True, arguments=arguments)

    async def left(self, queue: str) -> list[bytes]:
        """Take all messages of the queue."""
        async with _connected(self.server.url) as connection:
            channel = await connection.channel()
            declared = await channel.declare_queue(queue, passive=True)
            waiting = declared.declaration_result.message_count
            bodies: list[bytes] = []
            everything = asyncio.Event()

            async def taken(message: Any) -> None:
                bodies.append(message.body)
                if len(bodies) >= waiting:
                    everything.set()

            if waiting:
                await declared.consume(taken, no_ack=True)
                await everything.wait()
            return bodies

    async def drop_queue(self, queue: str) -> None:
        """Delete the queue."""
        async with _connected(self.server.url) as connection:
            channel = await connection.channel()
            await channel.queue_delete(queue)

    async def describe(self) -> dict[str, str]:
        """The broker's version, the clients', and how the queue is declared and used."""
        async with _connected(self.server.url) as connection:
            properties = connection.transport.connection.server_properties
            broker = f"{properties.get('version')} on {properties.get('platform')}"
        return {
            "RabbitMQ": f"{broker}, one node, packaged settings but for ports, directories and alarms",
            "client": f"aio-pika {version('aio-pika')}, its channels' underlay of aiormq {version('aiormq')}",
            "queue": f"x-queue-type = {self._queue_type}, durable",
            "put": "default exchange, delivery_mode 2 (persistent), publisher confirms, one await a message",
            "consume": f"basic.consume, prefetch {TAKEN_AT_ONCE}, basic.ack with multiple = true",
        }


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    """A connection that manages queues, for one block."""
    import aio_pika

    connection = await aio_pika.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


class RabbitClient:
    """One connection with one channel.

    Messages go through the channel below aio-pika's (aiormq's), which needs two thirds of its CPU time.
    """

    def __init__(self, connection: Any, channel: Any, queue: str) -> None:
        self._connection = connection
        self._channel = channel
        self._queue = queue

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Publish messages; return when all are confirmed."""
        from aiormq import spec

        for body in bodies:
            persistent = spec.Basic.Properties(delivery_mode=PERSISTENT)
            await self._channel.basic_publish(body, routing_key=self._queue, properties=persistent)

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Take what has come, and acknowledge up to the last message at once."""
        arrived: list[tuple[Any, float]] = []
        some = asyncio.Event()

        async def taken(message: Any) -> None:
            arrived.append((message, time.monotonic()))
            some.set()

        consumer = await self._channel.basic_consume(self._queue, taken)
        while not stop.is_set() or arrived:
            if not arrived:
                with suppress(TimeoutError):
                    await asyncio.wait_for(some.wait(), WAIT_S)
                continue
            batch = arrived[:]
            arrived.clear()
            some.clear()
            last = max(message.delivery_tag for message, _ in batch)
            await self._channel.basic_ack(last, multiple=True)
            for message, delivered_at in batch:
                sink.acknowledged((message.body,), delivered_at)
        await self._channel.basic_cancel(consumer.consumer_tag)

    async def close(self) -> None:
        """Disconnect; unacknowledged messages go back."""
        await self._connection.close()


async def connect(address: Address, queue: str) -> Client:
    """Open a client with publisher confirms."""
    import aio_pika

    connection = await aio_pika.connect(address["url"])
    channel = await connection.channel(publisher_confirms=True)
    await channel.set_qos(prefetch_count=TAKEN_AT_ONCE)
    return RabbitClient(connection, await channel.get_underlay_channel(), queue)
