"""An asyncio client whose connections lead to a service in memory, in the same event loop, step by step."""

import asyncio
from typing import Any

from fake_service import FakeService
from telesto.client.aio.client import AsyncTelestoClient
from telesto.client.aio.pool import AsyncPools
from telesto.client.aio.queue import AsyncQueues
from telesto.client.bookkeeping.identity import WantedClient
from telesto.client.io.async_driver import AsyncDriver, Connection


class MemoryTransport(asyncio.Transport):
    """What is written is executed at once; the answers come one turn of the loop later."""

    def __init__(self, service: FakeService, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._service = service
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self.remote = service.connect()

    def write(self, data: Any) -> None:
        if not self._closing:
            self.remote.receive(bytes(data))
            self._loop.call_soon(self.flush_all)

    def flush_all(self) -> None:
        for connection in list(self._service.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.flush()

    def flush(self) -> None:
        output = self.remote.take_output()
        if output and not self._closing:
            self._protocol.data_received(output)
        if self.remote.closing:
            self.abort()

    def is_closing(self) -> bool:
        return self._closing

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._service.kill(self.remote)
            self._loop.call_soon(self._protocol.connection_lost, None)

    def close(self) -> None:
        self.abort()


class MemoryDriver(AsyncDriver):
    """Connects to a service in memory."""

    service: FakeService

    async def _open(self, host: str, port: int) -> Connection:
        await asyncio.sleep(0)
        connection = Connection(self)
        transport = MemoryTransport(self.service, connection)
        transport.remote.transport = transport  # type: ignore[attr-defined]
        connection.connection_made(transport)
        await asyncio.sleep(0)
        return connection


class MemoryClient(AsyncTelestoClient):
    """An AsyncTelestoClient of a service in memory."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._driver = MemoryDriver(self._session, self._options, WantedClient("alice"), None, None)
        self._queues = AsyncQueues(self._driver, AsyncPools())

    def use(self, service: FakeService) -> None:
        self._driver.service = service
