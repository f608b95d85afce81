"""Services and clients for the tests of the client library.

`calls` tests what an application calls, with clients of all kinds. `session` tests the core without I/O, by
itself or against the service in memory. `io` tests sockets, threads, signals and cancelling, and `durable`
clients with a state. What more than one folder uses stands here.
"""

import socket
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fake_server import FakeServer
from fake_service import FakeService
from faults.service.secured import Secured
from faults.waiting import wait_until
from harness import Clock
from real_service import start_middleware, stop_middleware
from shells import LoopThread, Open, opening
from telesto.client import ClientOptions

#: On a slow machine a client needs longer than by default to tell the service what it has taken.
CLOSE_TIMEOUT_S = 30.0


@pytest.fixture
def clock() -> Clock:
    """A clock that is moved by hand."""
    return Clock()


@pytest.fixture
def service(clock: Clock) -> FakeService:
    """The service in memory, for tests that move the wire by hand too."""
    return FakeService(clock)


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    """A service in memory behind a real port."""
    with FakeServer().running() as server:
        yield server


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port where nothing listens and that nothing else is given, but for a server of the test."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


@pytest.fixture(params=["blocking", "asyncio", "blocking-durable", "asyncio-durable"])
def open_client(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens clients of either kind."""
    with opening(request.param) as open_one:
        yield open_one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what shows nothing new.

    Clients with a state have the service in memory only: what differs is on their side. With TLS, users and
    rights go the tests of conformance, where every method is.
    """

    def shows_something(item: pytest.Item) -> bool:
        kinds = set(item.name.replace("]", "-").split("-"))
        if "secured" in kinds and item.path.name != "test_client_conformance.py":
            return False
        return "durable" not in kinds or not kinds & {"real", "secured"}

    items[:] = filter(shows_something, items)


@pytest.fixture(params=["memory", "real", "secured"])
def service_url(request: pytest.FixtureRequest) -> str:
    """The URL of a service: the one in memory, or a middleware with PostgreSQL, or one with TLS and users."""
    fixtures = {"memory": "memory_url", "real": "real_service_url", "secured": "secured_service_url"}
    url: str = request.getfixturevalue(fixtures[request.param])
    return url


@pytest.fixture
def memory_url(fake_server: FakeServer) -> str:
    return fake_server.url


class RealService:
    """A middleware with PostgreSQL, in a thread of its own."""

    def __init__(self, thread: LoopThread, database_url: str, **settings: Any) -> None:
        self._thread = thread
        self._database_url = database_url
        self._settings = settings
        self._server = thread.run(start_middleware(database_url, **settings))
        self.address = self._server.address

    def cut_connections(self) -> None:
        """Ends all connections."""

        async def cut() -> None:
            for connection in self._server.connections.snapshot():
                connection.abort()

        self._thread.run(cut())

    def wait_for_consumers(self, count: int) -> None:
        """Returns when so many consumers can be given messages, which is later than their rows are there."""
        wait_until(lambda: len(self._server.consumers) >= count)

    def restart(self) -> None:
        """Stops the middleware gracefully and starts another at the same address."""
        self.stop()
        self._server = self._thread.run(
            start_middleware(self._database_url, self.address[1], **self._settings)
        )

    def stop(self) -> None:
        self._thread.run(stop_middleware(self._server))

    def execute(self, statement: str) -> None:
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def query(self, statement: str) -> list[Any]:
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()


@pytest.fixture
def real_service(database_url: str) -> Iterator[RealService]:
    """A middleware with PostgreSQL."""
    with LoopThread().running() as thread:
        service = RealService(thread, database_url)
        try:
            yield service
        finally:
            service.stop()


@pytest.fixture
def real_service_url(real_service: RealService) -> str:
    host, port = real_service.address
    return f"telesto://{host}:{port}"


@pytest.fixture
def secured_service_url(database_url: str, tmp_path: Path) -> Iterator[str]:
    """The URL of a middleware that asks for TLS and a login, and checks the rights of each request."""
    secured = Secured(tmp_path)
    secured.add_user(database_url)
    with LoopThread().running() as thread:
        service = RealService(thread, database_url, **secured.settings)
        try:
            yield secured.url("{}:{}".format(*service.address))
        finally:
            service.stop()


@pytest.fixture
def connected(open_client: Open, service_url: str) -> Callable[..., Any]:
    """Opens and connects a client with a fresh name."""

    def connect(
        name: str | None = None,
        *,
        options: ClientOptions = ClientOptions(),  # noqa: B008 - it cannot be changed
        delivery: str = "once",
        **attributes: Any,
    ) -> Any:
        options = replace(options, close_timeout=CLOSE_TIMEOUT_S)
        client = open_client(
            service_url,
            options=options,
            delivery=delivery,
            name=name or f"client-{uuid.uuid4().hex}",
            **attributes,
        )
        client.connect()
        return client

    return connect


@pytest.fixture
def client(connected: Callable[..., Any]) -> Any:
    """A connected client."""
    return connected()
