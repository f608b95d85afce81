"""The command line, and a service for it. The folders are its subpackages; `common` tests `terminal` too."""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from command_line import TIMEOUT_S, CommandLine
from telesto.client import TelestoClient


@pytest.fixture
def bare_telesto(tmp_path: Path) -> CommandLine:
    """The command line without a service."""
    return CommandLine(tmp_path)


@pytest.fixture(scope="module")
def service_database(postgres_url: str, template_database: str) -> Iterator[str]:
    """The database of the module's service; its URL."""
    name = f"telesto_cli_{uuid.uuid4().hex}"
    _execute(postgres_url, f"CREATE DATABASE {name} TEMPLATE {template_database} STRATEGY wal_log")
    try:
        yield urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
    finally:
        _execute(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def service_url(service_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service of the module's own, started by `telesto serve`; its URL."""
    command_line = CommandLine(tmp_path_factory.mktemp("service"))
    command_line.environment["TELESTO_TEMPORARY_CLIENT_S"] = "2"
    arguments = ("serve", "--database-url", service_database, "--port", "0", "--json")
    with command_line.started(*arguments, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


@pytest.fixture
def telesto(service_url: str, tmp_path: Path) -> CommandLine:
    """The command line beside a running service."""
    return CommandLine(tmp_path, service_url)


@pytest.fixture(scope="module")
def client(service_url: str) -> Iterator[TelestoClient]:
    """A client of the same service, for what a test only needs to have done."""
    with TelestoClient(service_url, name="preparing") as client:
        client.connect()
        yield client


@pytest.fixture
def queue(client: TelestoClient) -> str:
    """The name of a new queue."""
    return client.create_queue(f"queue-{uuid.uuid4().hex[:8]}").name


@pytest.fixture
def put(client: TelestoClient, queue: str) -> Callable[..., None]:
    """Puts bodies into the queue."""
    queue_id = client.get_queue_by_name(queue).queue_id

    def put(*bodies: bytes) -> None:
        assert all(result.error is None for result in client.queue(queue_id).put_many(bodies))

    return put


@pytest.fixture
def depth(client: TelestoClient, queue: str) -> Callable[[], int]:
    """How many messages wait in the queue."""
    queue_id = client.get_queue_by_name(queue).queue_id
    return lambda: client.queue(queue_id).statistics().depth


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())
