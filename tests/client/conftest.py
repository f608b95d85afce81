"""Services and clients for the tests of the client library."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fake_server import FakeServer
from real_service import start_middleware, stop_middleware
from shells import LoopThread, Open, opening


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    """A service in memory behind a real port."""
    with FakeServer().running() as server:
        yield server


@pytest.fixture(params=["blocking", "asyncio"])
def open_client(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens clients of either kind."""
    with opening(request.param) as open_one:
        yield open_one


@pytest.fixture(params=["memory", "real"])
def service_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a service: the one in memory, or a middleware with PostgreSQL."""
    if request.param == "memory":
        yield request.getfixturevalue("fake_server").url
        return
    database_url = request.getfixturevalue("database_url")
    with LoopThread().running() as thread:
        server = thread.run(start_middleware(database_url))
        host, port = server.address
        try:
            yield f"telesto://{host}:{port}"
        finally:
            thread.run(stop_middleware(server))


@pytest.fixture
def connected(open_client: Open, service_url: str) -> Callable[..., Any]:
    """Opens and connects a client with a fresh name."""

    def connect(name: str | None = None, **attributes: Any) -> Any:
        options = {key: attributes.pop(key) for key in ("options", "delivery") if key in attributes}
        client = open_client(service_url, **options)
        client.connect(name=name or f"client-{uuid.uuid4().hex}", **attributes)
        return client

    return connect


@pytest.fixture
def client(connected: Callable[..., Any]) -> Any:
    """A connected client."""
    return connected()
