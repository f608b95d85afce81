"""Middlewares in the test's own loop, and clients on raw sockets.

`wire`, `scheduling`, `consumers`, `database` and `security` test the subpackages of these names. `server`
tests whole middlewares: processes, start and stop, jobs, waiting reads and topics, with one and with several.
What more than one folder uses stands here.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest

from loops import TellingLoop
from telesto.middleware.common import logs
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.server import MiddlewareServer
from wire import Wire

#: Small where a test would wait for them otherwise.
QUICK = {
    "port": 0,
    "max_frame": 1 << 22,
    "max_body_bytes": 1 << 20,
    "goaway_grace_s": 0.02,
    "linger_s": 0.2,
    "database_backoff_s": 0.02,
}

StartMiddleware = Callable[..., Awaitable[MiddlewareServer]]
Connect = Callable[..., Awaitable[Wire]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "settings(**values): those of the middleware that is the test's `server`"
    )


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of production; other tests run middlewares on asyncio's own."""
    return {"uvloop": TellingLoop}


@pytest.fixture(autouse=True)
def _quiet_logs() -> None:
    logs.configure("error", json=False)


@pytest.fixture
def database(database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to the test's database, as its owner; what it executes is committed at once."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
async def start_middleware(database_url: str) -> AsyncIterator[StartMiddleware]:
    """Gives a function that starts a middleware on the test's database."""
    servers: list[MiddlewareServer] = []

    async def start(
        *, consumer_clock: Callable[[], float] = time.monotonic, **settings: Any
    ) -> MiddlewareServer:
        values = QUICK | {"database_url": database_url} | settings
        server = MiddlewareServer(ServerSettings.load(**values), consumer_clock)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.request_stop()
    await asyncio.gather(*(server.wait_closed() for server in servers))


@pytest.fixture
async def connect(
    request: pytest.FixtureRequest, start_middleware: StartMiddleware
) -> AsyncIterator[Connect]:
    """Gives a function that opens a connection: to the middleware given, else to the test's, or a new one."""
    wires: list[Wire] = []
    default: list[MiddlewareServer] = []

    async def open_wire(server: MiddlewareServer | None = None) -> Wire:
        if server is None and "server" in request.fixturenames:
            server = request.getfixturevalue("server")
        if server is None:
            if not default:
                default.append(await start_middleware())
            server = default[0]
        wire = await Wire.open(server.address)
        wires.append(wire)
        return wire

    yield open_wire
    for wire in wires:
        await wire.close()


@pytest.fixture
async def server(request: pytest.FixtureRequest, start_middleware: StartMiddleware) -> MiddlewareServer:
    """A middleware, with what the test's mark says."""
    mark = request.node.get_closest_marker("settings")
    return await start_middleware(**(mark.kwargs if mark else {}))


@pytest.fixture
async def wire(server: MiddlewareServer, connect: Connect) -> Wire:
    """A new client of it."""
    return await (await connect(server)).register()


@pytest.fixture
async def queue_id(wire: Wire) -> int:
    """A new queue."""
    return await wire.create_queue()
