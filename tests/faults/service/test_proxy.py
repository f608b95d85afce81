"""The proxy against an echo server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from .proxy import Proxy

PATIENCE_S = 60.0

Connect = Callable[[], Awaitable["Peer"]]


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[:2])
    await proxy.start()
    yield proxy
    await proxy.close()
    server.close()
    await server.wait_closed()


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def echoed(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await self.got(len(data))

    async def got(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), PATIENCE_S)

    async def rest(self) -> bytes:
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE_S)
        except OSError:
            return b""


@pytest.fixture
async def connect(proxy: Proxy) -> AsyncIterator[Connect]:
    peers: list[Peer] = []

    async def open_peer() -> Peer:
        peers.append(Peer(*await asyncio.open_connection(*proxy.address)))
        return peers[-1]

    yield open_peer
    for peer in peers:
        peer.writer.close()
        await asyncio.gather(peer.writer.wait_closed(), return_exceptions=True)


async def test_it_forwards_and_an_end_is_an_end(proxy: Proxy, connect: Connect) -> None:
    peer = await connect()
    assert await peer.echoed(b"hello") == b"hello"
    peer.writer.write(b"bye")
    peer.writer.write_eof()
    assert await peer.rest() == b"bye"
    assert proxy.struck == 0


async def test_a_cut_ends_all_connections_and_new_ones_work(proxy: Proxy, connect: Connect) -> None:
    peers = [await connect() for _ in range(3)]
    for peer in peers:
        await peer.echoed(b"x")
    assert proxy.cut() == 3
    for peer in peers:
        assert await peer.rest() == b""
    peer = await connect()
    assert await peer.echoed(b"x") == b"x"


async def test_what_is_held_comes_when_it_is_healed(proxy: Proxy, connect: Connect) -> None:
    peer = await connect()
    await peer.echoed(b"x")
    proxy.hold(proxy.to_client)
    peer.writer.write(b"late")
    await asyncio.wait_for(proxy.to_client.held.wait(), PATIENCE_S)
    proxy.heal()
    assert await peer.got(4) == b"late"
    assert proxy.to_client.struck == 1
    assert proxy.to_server.struck == 0


async def test_a_connection_made_while_all_is_held_is_served_later(proxy: Proxy, connect: Connect) -> None:
    proxy.hold()
    peer = await connect()
    peer.writer.write(b"patience")
    proxy.heal()
    assert await peer.got(8) == b"patience"


async def test_a_chunk_is_cut_in_the_middle(proxy: Proxy, connect: Connect) -> None:
    peer = await connect()
    await peer.echoed(b"x")
    proxy.to_client.cut_after = lambda size: size // 2
    peer.writer.write(b"12345678")
    assert await peer.rest() == b"1234"
    assert len(proxy) == 0
    other = await connect()
    assert await other.echoed(b"12345678") == b"12345678"


async def test_a_throttled_direction_loses_nothing(proxy: Proxy, connect: Connect) -> None:
    proxy.to_server.bytes_per_s = 20_000
    peer = await connect()
    data = bytes(range(256)) * 20
    assert await peer.echoed(data) == data
    assert proxy.to_server.struck


async def test_a_delayed_direction_keeps_the_order(proxy: Proxy, connect: Connect) -> None:
    proxy.to_client.delay_s = 0.01
    peer = await connect()
    data = bytes(range(256)) * 20
    assert await peer.echoed(data) == data
    assert proxy.to_client.struck


async def test_traffic_is_noticed(proxy: Proxy, connect: Connect) -> None:
    peer = await connect()
    noticed = asyncio.create_task(proxy.traffic(proxy.to_client))
    await asyncio.sleep(0)
    await peer.echoed(b"x")
    await asyncio.wait_for(noticed, PATIENCE_S)


async def test_a_server_that_is_not_there_ends_the_connection(proxy: Proxy, connect: Connect) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    proxy.target = server.sockets[0].getsockname()[:2]
    server.close()
    await server.wait_closed()
    peer = await connect()
    assert await peer.rest() == b""


async def test_refused_connections_are_counted(proxy: Proxy, connect: Connect) -> None:
    proxy.refusing = True
    peer = await connect()
    assert await peer.rest() == b""
    assert proxy.refused == 1
    proxy.heal()
    assert await (await connect()).echoed(b"x") == b"x"
