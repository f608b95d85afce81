"""A TCP proxy that misbehaves on request: between clients and middlewares, or those and PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from .listening import stop_listening

_CHUNK_BYTES = 64 * 1024
#: A throttled direction forwards in steps of so many seconds.
_THROTTLE_STEP_S = 0.05

Address = tuple[str, int]


@dataclass(slots=True)
class Direction:
    """How one direction behaves: bytes to the server, or bytes to the client.

    Attributes:
        open: nothing is forwarded while it is not set; the connections stay.
        delay_s: each chunk is that late.
        bytes_per_s: no more is forwarded; 0 for any number.
        cut_after: so many bytes of the next chunk are forwarded, then the connection ends; None for not.
        struck: chunks that were held, delayed, throttled or cut.
        held: set while a chunk is held.
    """

    open: asyncio.Event = field(default_factory=asyncio.Event)
    delay_s: float = 0.0
    bytes_per_s: int = 0
    cut_after: Callable[[int], int] | None = None
    struck: int = 0
    held: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.open.set()


class _Connection:
    """A client's connection and the one that was opened for it; ends when either ends."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._server: asyncio.StreamWriter | None = None
        self.task = asyncio.create_task(self._serve())

    def cut(self) -> None:
        """Ends both sides at once; what was not forwarded is lost."""
        for writer in (self._writer, self._server):
            if writer is not None:
                writer.transport.abort()
        self.task.cancel()

    async def _serve(self) -> None:
        try:
            await self._proxy.to_server.open.wait()
            reader, self._server = await asyncio.open_connection(*self._proxy.target)
            for writer in (self._writer, self._server):
                writer.transport.set_write_buffer_limits(high=0)  # drain returns when all has left
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(self._reader, self._server, self._proxy.to_server))
                pumps.create_task(self._pump(reader, self._writer, self._proxy.to_client))
        except* (OSError, _EndError):
            pass
        finally:
            self._proxy.forget(self)
            self.cut()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Direction) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            self._proxy.passing(way)
            await self._forward(data, writer, way)
        await self._hold(way)
        writer.write_eof()

    async def _forward(self, data: bytes, writer: asyncio.StreamWriter, way: Direction) -> None:
        if way.delay_s:
            way.struck += 1
            await asyncio.sleep(way.delay_s)
        await self._hold(way)
        if way.cut_after is not None:
            count, way.cut_after = way.cut_after(len(data)), None
            way.struck += 1
            writer.write(data[:count])
            await writer.drain()
            raise _EndError
        if way.bytes_per_s:
            way.struck += 1
            await self._trickle(data, writer, way)
            return
        writer.write(data)
        await writer.drain()

    async def _hold(self, way: Direction) -> None:
        if not way.open.is_set():
            way.struck += 1
            way.held.set()
            await way.open.wait()

    async def _trickle(self, data: bytes, writer: asyncio.StreamWriter, way: Direction) -> None:
        sent = 0
        while sent < len(data):
            step = int(way.bytes_per_s * _THROTTLE_STEP_S) or len(data)
            writer.write(data[sent : sent + step])
            await writer.drain()
            sent += step
            await asyncio.sleep(_THROTTLE_STEP_S)


class _EndError(Exception):
    """The connection ends."""


class Proxy:
    """Forwards connections to ``target``, well or badly.

    Attributes:
        target: where connections lead; may change, for those to come.
        address: where it listens.
        to_server, to_client: how each direction behaves.
        refusing: new connections are ended at once.
        refused: how many were.
    """

    def __init__(self, target: Address) -> None:
        self.target = target
        self.address: Address = ("127.0.0.1", 0)
        self.to_server = Direction()
        self.to_client = Direction()
        self.refusing = False
        self.refused = 0
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._passing: dict[int, tuple[Direction | None, asyncio.Future[None]]] = {}
        self._waiters = itertools.count()

    async def start(self) -> None:
        """Listens on a free port."""
        self._server = await asyncio.start_server(self._accept, *self.address)
        self.address = self._server.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        """Ends everything."""
        if self._server is not None:
            await stop_listening(self._server)
            self._server.close()
        tasks = [connection.task for connection in self._connections]
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._connections)

    # --- misbehaviour ------------------------------------------------------------------------

    def cut(self) -> int:
        """Ends all connections at once; returns how many."""
        connections = list(self._connections)
        for connection in connections:
            connection.cut()
        return len(connections)

    def hold(self, *ways: Direction) -> None:
        """Forwards nothing any more, in the directions given or both; new connections get no answer."""
        for way in ways or (self.to_server, self.to_client):
            way.held.clear()
            way.open.clear()

    def heal(self) -> None:
        """Behaves well from now on; what was held is forwarded."""
        for way in (self.to_server, self.to_client):
            way.delay_s, way.bytes_per_s, way.cut_after = 0.0, 0, None
            way.open.set()
        self.refusing = False

    @property
    def struck(self) -> int:
        """How many chunks the misbehaviour has met so far."""
        return self.to_server.struck + self.to_client.struck

    async def traffic(self, way: Direction | None = None) -> None:
        """Returns when the next bytes come, in one direction or any; they are not forwarded yet."""
        number, future = next(self._waiters), asyncio.get_running_loop().create_future()
        self._passing[number] = (way, future)
        try:
            await future
        finally:
            del self._passing[number]

    # --- for connections ---------------------------------------------------------------------

    def passing(self, way: Direction) -> None:
        """Bytes have come."""
        for wanted, future in self._passing.values():
            if wanted in (None, way) and not future.done():
                future.set_result(None)

    def forget(self, connection: _Connection) -> None:
        """A connection has ended."""
        self._connections.discard(connection)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            self.refused += 1
            writer.transport.abort()
            return
        self._connections.add(_Connection(self, reader, writer))
