"""A service that the scenarios of a module share, and what they do with it."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from running import serving
from telesto.client import TelestoClient


@pytest.fixture(scope="module")
def shared_database_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """A database with the schema, for the tests of a module."""
    name = f"telesto_scenarios_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template_database} STRATEGY wal_log".encode())
        yield urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module")
def url(shared_database_url: str) -> Iterator[str]:
    """Where the shared service is."""
    with serving(shared_database_url) as service:
        yield service["url"]


@pytest.fixture
def connect(url: str) -> Iterator[Callable[[], TelestoClient]]:
    """Connects a client under a name of its own; it is closed after the test."""
    with ExitStack() as opened:

        def connect(**options: Any) -> TelestoClient:
            client = opened.enter_context(TelestoClient(url, **options, name=f"client-{uuid.uuid4().hex}"))
            client.connect()
            return client

        yield connect


@pytest.fixture
def client(connect: Callable[[], TelestoClient]) -> TelestoClient:
    """A client that creates queues and puts."""
    return connect()


@pytest.fixture
def new_queue(client: TelestoClient) -> Callable[..., int]:
    """Creates a queue where what comes back comes again at once; returns its id."""

    def new_queue(**settings: Any) -> int:
        name = f"queue-{uuid.uuid4().hex}"
        return client.create_queue(name, **({"backoff": 0} | settings)).queue_id

    return new_queue
