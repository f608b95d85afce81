"""Every peer that can run here does what the interface says: what is put is taken once, or is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest
import pytest_asyncio

from telesto.benchmarks.peers.bodies import BodyMaker
from telesto.benchmarks.peers.catalog import CATALOG, Servers
from telesto.benchmarks.peers.comparison import lacks
from telesto.benchmarks.peers.interface import Client, Peer, Server

QUEUE = "conformance"
STREAM = 7
SOME = 70


class Running:
    """The servers of this module's tests: started when a peer needs them first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers = Servers()
        self._running: list[Server] = []

    async def peer(self, name: str) -> Peer:
        peer = CATALOG[name].make(self._servers)
        if peer.server not in self._running:
            directory = self._directory / f"server-{len(self._running)}"
            directory.mkdir(mode=0o711, parents=True)
            self._running.append(peer.server)
            await peer.server.start(directory)
        await peer.prepare()
        return peer

    async def stop(self) -> None:
        for server in reversed(self._running):
            await server.stop()


@pytest.fixture(scope="module")
def place(module_data_dir: Path) -> Path:
    module_data_dir.mkdir(mode=0o711)
    return module_data_dir


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(place: Path) -> AsyncIterator[Running]:
    servers = Running(place)
    yield servers
    await servers.stop()


class Taken:
    """A sink that tells when it has so many messages."""

    def __init__(self, wanted: int) -> None:
        self.bodies: list[bytes] = []
        self.enough = asyncio.Event()
        self._wanted = wanted

    def acknowledged(self, bodies: Sequence[bytes], delivered_at: float) -> None:
        assert delivered_at > 0
        self.bodies += bodies
        if len(self.bodies) >= self._wanted:
            self.enough.set()


async def connect(peer: Peer) -> Client:
    client: Client = await import_module(peer.module).connect(peer.address(), QUEUE)
    return client


async def put_all(peer: Peer, client: Client, bodies: Sequence[bytes]) -> None:
    """Put them as the generator of load does: many calls at a time, or many messages in a call."""
    if peer.puts_at_once == 1:
        await asyncio.gather(*(client.put([body]) for body in bodies))
        return
    for begin in range(0, len(bodies), peer.puts_at_once):
        await client.put(bodies[begin : begin + peer.puts_at_once])


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", CATALOG)
async def test_what_is_put_is_taken_once_or_is_left(name: str, running: Running) -> None:
    if reason := lacks(CATALOG[name]):
        pytest.skip(reason)
    peer = await running.peer(name)
    maker = BodyMaker(STREAM, 200)
    first, second = ([maker.next(0.5)[1] for _ in range(SOME)] for _ in range(2))

    await peer.make_queue(QUEUE)
    producer, consumer = await connect(peer), await connect(peer)
    sink, stop = Taken(SOME), asyncio.Event()
    consuming = asyncio.create_task(consumer.consume(sink, stop))
    await put_all(peer, producer, first)
    await sink.enough.wait()
    stop.set()
    await consuming
    await consumer.close()
    assert sorted(sink.bodies) == first

    await put_all(peer, producer, second)
    await producer.close()
    assert sorted(await peer.left(QUEUE)) == second, "what was acknowledged is gone, the rest is there"
    await peer.drop_queue(QUEUE)

    await peer.make_queue(QUEUE)
    assert await peer.left(QUEUE) == [], "a queue of the same name begins empty"
    await peer.drop_queue(QUEUE)
    assert all((await peer.describe()).values())
    assert list(peer.server.roots())
