"""What a connection holds goes with it, without the garbage collector."""

import asyncio
import gc
import struct
import weakref
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from conftest import Connect, StartMiddleware
from locks import locked
from telesto.middleware.server import MiddlewareServer
from telesto.middleware.wire.connection import Connection
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from wire import FOREVER_MS, Wire, frame, put, read, until


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Switches the garbage collector off: what goes now, goes because nothing refers to it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@dataclass
class Scene:
    """A connection that is about to end, and another one."""

    server: MiddlewareServer
    wire: Wire
    other: Wire
    database_url: str


async def plainly(scene: Scene) -> None:
    await scene.wire.register()


async def without_a_word(scene: Scene) -> None:
    pass


async def in_a_frame(scene: Scene) -> None:
    await scene.wire.register()
    scene.wire.write(struct.pack(">IHI", 1 << 20, packets.PutMessage.METHOD_ID, 9) + bytes(1 << 19))
    await until(lambda: scene.server.budget.bytes > 1 << 18)


async def with_a_frame_too_large(scene: Scene) -> None:
    await scene.wire.register()
    scene.wire.write(struct.pack(">IHI", 1 << 30, packets.PutMessage.METHOD_ID, 9))
    await scene.wire.closed()


async def with_a_length_too_small(scene: Scene) -> None:
    await scene.wire.register()
    scene.wire.write(packets.Ping().encode(1) + bytes(64))
    await scene.wire.closed()


async def with_bad_magic(scene: Scene) -> None:
    scene.wire.write(frame(packets.Hello.METHOD_ID, 1, bytes(60)))


async def while_reads_wait(scene: Scene) -> None:
    await scene.wire.register()
    queue_id = await scene.wire.create_queue()
    for _ in range(20):
        scene.wire.read(queue_id, wait_ms=60_000)
        scene.wire.read(queue_id, wait_ms=FOREVER_MS)
    await until(lambda: scene.server.room.parked == 40)


async def while_requests_are_under_way(scene: Scene) -> None:
    await scene.wire.register()
    queue_id = await scene.wire.create_queue()
    for _ in range(500):
        scene.wire.put(queue_id)
    await scene.wire.drain()


async def as_a_consumer(scene: Scene) -> None:
    await scene.wire.register()
    queue_id = await scene.wire.create_queue()
    for _ in range(10):
        await scene.other.put_one(queue_id)
    await scene.wire.ask(packets.JoinQueue(queue_id, 5, 0))
    assert isinstance(await scene.wire.unasked.get(), packets.Deliver)


async def without_reading(scene: Scene) -> None:
    await scene.wire.register()
    queue_id = await scene.wire.create_queue()
    for answer in [scene.other.send(put(0, queue_id, body=bytes(1 << 18))) for _ in range(60)]:
        await answer
    scene.wire.pause_reading()
    for _ in range(60):
        scene.wire.send(read(0, queue_id))
    await until(lambda: scene.server.connections.snapshot()[1].flow.slow)


async def with_a_full_line(scene: Scene) -> None:
    await scene.wire.register()
    queue_id = await scene.wire.create_queue()
    async with locked(scene.database_url, queue_id):
        for _ in range(500):
            scene.wire.put(queue_id)
        await until(lambda: scene.server.connections.snapshot()[1].flow.pipeline_full)


async def after_a_refusal(scene: Scene) -> None:
    await scene.wire.register()
    scene.server.budget.enter(1 << 30, 0)
    for _ in range(3):
        assert (await scene.wire.put(1)).code == ErrorCode.OVERLOADED
        assert (await scene.wire.ask(packets.GetQueueName(1))).code == ErrorCode.OVERLOADED
    scene.server.budget.leave(1 << 30, 0)


ENDS = [
    after_a_refusal,
    plainly,
    without_a_word,
    in_a_frame,
    with_a_frame_too_large,
    with_a_length_too_small,
    with_bad_magic,
    while_reads_wait,
    while_requests_are_under_way,
    as_a_consumer,
    without_reading,
    with_a_full_line,
]


def weak_references_to_connections(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """What is added for each connection that is made from now on: references to it and to its transport."""
    references: list[weakref.ref[Any]] = []
    made = Connection.connection_made

    def note(connection: Connection, transport: asyncio.BaseTransport) -> None:
        made(connection, transport)
        references.extend((weakref.ref(connection), weakref.ref(transport)))

    monkeypatch.setattr(Connection, "connection_made", note)
    return references


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_a_connection_goes_with_all_that_it_holds(
    connect: Connect,
    start_middleware: StartMiddleware,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Scene], Awaitable[None]],
) -> None:
    server = await start_middleware(
        linger_s=0.05, pipeline_requests=100, write_high_bytes=1 << 16, write_low_bytes=1 << 14
    )
    other = await (await connect(server)).register()
    references = weak_references_to_connections(monkeypatch)
    wire = await connect(server)
    await until(lambda: references)
    await end(Scene(server, wire, other, database_url))
    await wire.close()
    await until(lambda: len(server.connections) == 1)
    await until(lambda: server.budget.requests == 0)
    # A worker still knows what it did last; this takes its place.
    queue_id = await other.create_queue()
    await other.put_one(queue_id)
    await other.read_now(queue_id)
    await until(lambda: [reference() for reference in references] == [None, None])
    assert server.budget.bytes == 0
