"""A service for the tests of `telesto.tasks`, and an application of each test's own."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from started import STARTED, end
from telesto.client import TelestoClient
from telesto.tasks import App

SERVE = ["-m", "telesto.cli.main", "serve", "--port", "0", "--json"]


@pytest.fixture(scope="module")
def tasks_database_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """A database with the schema, for the tests of a module."""
    name = f"telesto_tasks_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template_database} STRATEGY wal_log".encode())
        yield urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module")
def url(tasks_database_url: str) -> Iterator[str]:
    """Where the service of the module is."""
    with subprocess.Popen(
        [*STARTED, sys.executable, *SERVE, "--database-url", tasks_database_url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            end(process)


@pytest.fixture
def app(url: str, tasks_database_url: str) -> Iterator[App]:
    """An application without tasks."""
    app = App(url, database=tasks_database_url)
    yield app
    app.close()


@pytest.fixture
def queue() -> str:
    """The name of a queue that is not there yet."""
    return f"queue-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(url: str) -> Iterator[TelestoClient]:
    """A client that looks and puts."""
    with TelestoClient(url) as client:
        yield client


@pytest.fixture
def letters(client: TelestoClient, queue: str) -> Callable[[], list[str]]:
    """The reasons of the queue's dead letters."""
    return lambda: [letter.reason for letter in client.queue(queue).dead_letters()]
