"""The service in memory behind a real port, in a thread of its own, with means to disturb it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from fake_service import FakeConnection, FakeService
from faults.service.listening import stop_listening
from faults.waiting import wait_until

#: What a test waits for takes no longer, on a very busy machine.
PATIENCE_S = 30.0
#: How often the service looks at the time.
TICK_S = 0.005


class _Served(asyncio.Protocol):
    def __init__(self, server: FakeServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.connection: FakeConnection = self._server.service.connect()
        self._server.served.append(self)
        self._server.empty.clear()

    def data_received(self, data: bytes) -> None:
        if self._server.deaf:
            self._server.dropped += data
            return
        self.connection.receive(data)
        if self._server.cut_after_next and self.connection.client is not None:
            self._server.cut_after_next = False
            self.connection.output.clear()
            self.transport.abort()
        self._server.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.service.kill(self.connection)
        self._server.forget(self)


class FakeServer:
    """Serves a FakeService.

    Attributes:
        deaf: nothing that comes is read any more.
        dropped: what came meanwhile.
        cut_after_next: the next requests are executed and the connection is cut instead of an answer.
    """

    def __init__(self) -> None:
        self.service = FakeService(time.monotonic)
        self.served: list[_Served] = []
        self.deaf = False
        self.dropped = b""
        self.cut_after_next = False
        self.port = 0
        self.empty = asyncio.Event()
        self._loop = asyncio.new_event_loop()

    @property
    def url(self) -> str:
        return f"telesto://127.0.0.1:{self.port}"

    def forget(self, served: _Served) -> None:
        self.served.remove(served)
        if not self.served:
            self.empty.set()

    def flush(self) -> None:
        for served in list(self.served):
            output = served.connection.take_output()
            if output:
                served.transport.write(output)
            if served.connection.closing:
                served.transport.close()

    def do(self, action: Callable[[], Any]) -> Any:
        """Runs something in the server's thread."""
        outcome: Future[Any] = Future()

        def run() -> None:
            outcome.set_result(action())
            self.flush()

        self._loop.call_soon_threadsafe(run)
        return outcome.result(PATIENCE_S)

    def cut(self) -> None:
        """Cuts all connections."""
        self.do(lambda: [served.transport.abort() for served in self.served])

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Waits until something holds in the server."""
        wait_until(lambda: self.do(condition))

    @contextmanager
    def running(self) -> Iterator[FakeServer]:
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(PATIENCE_S)
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(PATIENCE_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(PATIENCE_S)
            self._loop.close()

    async def _start(self) -> None:
        self._server = await self._loop.create_server(lambda: _Served(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._ticker = self._loop.create_task(self._tick())

    async def _stop(self) -> None:
        self._ticker.cancel()
        await asyncio.wait([self._ticker])
        await stop_listening(self._server)
        self._server.close()
        for served in list(self.served):
            served.transport.abort()
        if self.served:
            await self.empty.wait()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.service.tick()
            self.flush()
