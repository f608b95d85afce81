"""Every peer that can run here does what the interface says: what is put is taken once, or is left."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

from telesto.benchmarks.comparison.catalog import CATALOG, Servers
from telesto.benchmarks.comparison.compare import lacks
from telesto.benchmarks.comparison.load import TextBodyMaker
from telesto.benchmarks.peers.interface import Client, Peer, PeerUnavailableError

QUEUE = "conformance"
STREAM = 7
SOME = 70


def groups() -> list[list[str]]:
    """The names of all peers, those together that share a server."""
    servers, found = Servers(), defaultdict(list)
    for name, entry in CATALOG.items():
        found[entry.make(servers).server].append(name)
    return list(found.values())


@pytest.fixture
def place(data_dir: Path) -> Path:
    data_dir.mkdir(mode=0o711)
    return data_dir


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


@pytest.mark.parametrize("names", groups(), ids="+".join)
async def test_what_is_put_is_taken_once_or_is_left(names: list[str], place: Path) -> None:
    lacking = {name: reason for name in names if (reason := lacks(CATALOG[name]))}
    if len(lacking) == len(names):
        pytest.skip(f"{lacking}")
    servers = Servers()
    peers = [CATALOG[name].make(servers) for name in names if name not in lacking]
    try:
        try:
            await peers[0].server.start(place)
        except PeerUnavailableError as error:
            if "telesto" in names:
                raise
            pytest.skip(str(error))  # an older release than it needs, as the command itself would say
        for peer in peers:
            await peer.prepare()
            await conforms(peer)
    finally:
        await peers[0].server.stop()


async def conforms(peer: Peer) -> None:
    maker = TextBodyMaker(STREAM, 200)
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
    assert sorted(sink.bodies) == first, peer.name

    await put_all(peer, producer, second)
    await producer.close()
    left = await peer.left(QUEUE)
    assert sorted(left) == second, f"{peer.name}: what was acknowledged is gone, the rest is there"
    await peer.drop_queue(QUEUE)

    await peer.make_queue(QUEUE)
    assert await peer.left(QUEUE) == [], f"{peer.name}: a queue of the same name begins empty"
    await peer.drop_queue(QUEUE)
    assert all((await peer.describe()).values())
    assert list(peer.server.roots())
