"""A real process under clients that take what they can get: memory, frames, requests, answers, places."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from admin_port import fetch
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from test_mw_processes import reserved_port, running, until_serving
from wire import PATIENCE_S, Wire, until

MIB = 1 << 20


@dataclass
class Service:
    """A middleware that runs."""

    pid: int
    port: int
    admin_port: int
    wires: list[Wire]

    async def connect(self, receive_bytes: int = 0) -> Wire:
        """Opens a connection of a new client."""
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        wire = Wire(*await asyncio.open_connection(sock=sock))
        self.wires.append(wire)
        return await wire.register()

    async def metric(self, name: str) -> float:
        """A figure of the middleware; 0 when it has none of this name."""
        _, body = await fetch(("127.0.0.1", self.admin_port), b"GET /metrics HTTP/1.1\r\n\r\n")
        found = re.search(rf"^{re.escape(name)} (\S+)$", body.decode(), re.MULTILINE)
        return 0.0 if found is None else float(found[1])

    async def health(self) -> str:
        """What /readyz says."""
        _, body = await fetch(("127.0.0.1", self.admin_port), b"GET /readyz HTTP/1.1\r\n\r\n")
        return body.decode()

    @property
    def resident_mib(self) -> int:
        """The memory that it uses."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) // 1024


@contextlib.asynccontextmanager
async def service(database_url: str, **settings: Any) -> AsyncIterator[Service]:
    """Runs a middleware as a process, with settings or whatever else ``running`` takes."""
    with reserved_port() as admin_port:
        async with running(database_url, "--admin-port", str(admin_port), **settings) as (process, port):
            await (await until_serving(port)).close()
            middleware = Service(process.pid, port, admin_port, [])
            try:
                yield middleware
            finally:
                await close_all(middleware.wires)


class Others:
    """Clients that do nothing wrong: one that is connected, and some that come."""

    def __init__(self, service: Service, wire: Wire, queue_id: int) -> None:
        self._service = service
        self._wire = wire
        self._queue_id = queue_id

    @classmethod
    async def of(cls, service: Service) -> Others:
        wire = await service.connect()
        return cls(service, wire, await wire.create_queue())

    async def are_served(self, times: int = 10) -> None:
        """Puts, reads and waits; a newcomer does so too."""
        for body in [b"small", bytes(MIB // 2)] * times:
            await self._do_all(self._wire, body)
            newcomer = await self._service.connect()
            await self._do_all(newcomer, body)
            await newcomer.close()

    async def _do_all(self, wire: Wire, body: bytes) -> None:
        await wire.put_one(self._queue_id, body=body)
        assert len(await wire.read_now(self._queue_id)) == 1
        waiting = wire.read(self._queue_id, wait_ms=60_000)
        await wire.ask(packets.GetQueueName(self._queue_id))
        await wire.put_one(self._queue_id, body=body)
        assert len((await asyncio.wait_for(waiting, PATIENCE_S)).messages) == 1


def begun_frame(size: int) -> bytes:
    """The first bytes of a put of which more is announced than comes."""
    return struct.pack(">IHI", 16 * MIB, packets.PutMessage.METHOD_ID, 99) + bytes(size)


async def close_all(wires: list[Wire]) -> None:
    await asyncio.gather(*(wire.close() for wire in wires))


async def test_the_memory_of_connections_goes_with_them(database_url: str) -> None:
    async with service(database_url) as middleware:
        first = await middleware.connect()
        queue_id = await first.create_queue()
        start = middleware.resident_mib
        for _ in range(5):
            wires = [await middleware.connect() for _ in range(10)]
            for wire in wires:
                wire.write(begun_frame(15 * MIB))
                await wire.drain()
            await until(lambda: middleware.resident_mib > start + 100)
            await close_all(wires)
            await until(lambda: middleware.resident_mib < start + 100)
        # Whole frames, refused and taken.
        body = bytes(15 * MIB)
        for _ in range(5):
            assert isinstance(await first.put(queue_id + 1, body=body), packets.PutMessageResponse)
            assert await first.put_one(queue_id, body=body)
            assert len(await first.read_now(queue_id)) == 1
        await until(lambda: middleware.resident_mib < start + 100)


async def test_frames_that_are_begun_shut_nobody_out(database_url: str) -> None:
    async with service(database_url, budget_bytes=64 * MIB) as middleware:
        others = await Others.of(middleware)
        wires = []
        for size in [15 * MIB] * 4 + [65_000] * 75:
            wire = await middleware.connect()
            wires.append(wire)
            wire.write(begun_frame(size))
            with contextlib.suppress(ConnectionError):
                await wire.drain()
        await others.are_served()
        assert await middleware.metric('telesto_refused_total{code="23"}') > 0
        assert await middleware.metric("telesto_bytes_under_way") < 64 * MIB
        told = [wire.unasked.get_nowait() for wire in wires if not wire.unasked.empty()]
        assert {error.code for error in told} == {ErrorCode.OVERLOADED}
        await close_all(wires)
        await until(lambda: no_bytes(middleware))


async def no_bytes(middleware: Service) -> bool:
    return await middleware.metric("telesto_bytes_under_way") == 0


async def test_requests_of_peers_that_do_not_read_shut_nobody_out(database_url: str) -> None:
    async with service(database_url, budget_requests=3_000) as middleware:
        others = await Others.of(middleware)
        wires, queue_id = [], await filled_queue(middleware)
        many = b"".join(packets.GetMessages(queue_id, 0, 500).encode(number) for number in range(10, 1_400))
        for _ in range(20):
            wire = await middleware.connect(4096)
            wires.append(wire)
            wire.pause_reading()
            wire.write(many)
        await others.are_served()
        await until(lambda: middleware.metric('telesto_connections_aborted_total{reason="keeps_requests"}'))
        await others.are_served()


async def filled_queue(middleware: Service) -> int:
    """A queue of messages each of which is a page when they are listed."""
    wire = await middleware.connect()
    queue_id = await wire.create_queue()
    for _ in range(15):
        await wire.put_one(queue_id, body=bytes(MIB))
    await wire.close()
    return queue_id


async def test_answers_that_nobody_reads_are_bounded_for_all(database_url: str) -> None:
    async with service(database_url, budget_unsent_bytes=24 * MIB) as middleware:
        others = await Others.of(middleware)
        queue_id = await filled_queue(middleware)
        start = middleware.resident_mib
        wires = []
        for _ in range(30):
            wire = await middleware.connect(4096)
            wires.append(wire)
            wire.pause_reading()
            for number in range(30):
                wire.write(packets.GetMessages(queue_id, 0, 500).encode(10 + number))
        await others.are_served()
        await until(lambda: middleware.metric('telesto_connections_aborted_total{reason="keeps_unsent"}'))
        await until(lambda: few_unsent(middleware))
        await others.are_served()
        assert middleware.resident_mib < start + 200


async def few_unsent(middleware: Service) -> bool:
    return await middleware.metric("telesto_unsent_bytes") < 24 * MIB


async def test_waiting_reads_shut_nobody_out(database_url: str) -> None:
    async with service(database_url, max_waiting_reads=2_000) as middleware:
        others = await Others.of(middleware)
        wires = []
        for _ in range(10):
            wire = await middleware.connect()
            wires.append(wire)
            queue_id = await wire.create_queue()
            for _ in range(1_000):
                wire.read(queue_id, wait_ms=60_000)
            # Those that may not wait have been told so when what stands behind them is answered.
            await wire.ask(packets.GetQueueName(queue_id))
        assert await middleware.metric("telesto_waiting_reads") > 1_000
        await others.are_served()


async def test_a_frame_must_be_complete_in_time(database_url: str) -> None:
    async with service(database_url, frame_limit_s=0.5) as middleware:
        wire, idle = await middleware.connect(), await middleware.connect()
        wire.write(begun_frame(100))
        await wire.closed()
        reason = 'telesto_connections_aborted_total{reason="frame_incomplete"}'
        assert await middleware.metric(reason) == 1
        assert isinstance(await idle.ask(packets.Ping()), packets.Pong)
