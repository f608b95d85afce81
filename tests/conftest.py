"""The database of the tests: one PostgreSQL per run, one template with the schema, one clone of it per test.

`TELESTO_TEST_DATABASE_URL` names a server to use (as a superuser) instead of the embedded one. Nothing is
started unless a test asks for it. Under pytest-xdist the workers share the server: the first that needs it
starts and owns it, every user holds a shared lock, and the owner ends it when it is alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

SERVER_URL_VARIABLE = "TELESTO_TEST_DATABASE_URL"
MEMORY_DISK = Path("/dev/shm")
MEMORY_DISK_FREE_MIN = 2 << 30
# Small, because every test database that is dropped costs a pass over the cache; and to compress the pages
# that a new one writes to the log takes half of the time to make it.
TEST_SETTINGS = {
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "min_wal_size": "80MB",
    "wal_compression": "off",
}


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Give a directory for an embedded server, not made yet, that the server's account can reach.

    Not below `tmp_path`, whose parents pytest closes to all other accounts.
    """
    with _scratch_directory() as scratch:
        yield scratch / "data"


@pytest.fixture(scope="module")
def module_data_dir() -> Iterator[Path]:
    """Give a directory as `data_dir` does, to be shared by the tests of a module."""
    with _scratch_directory() as scratch:
        yield scratch / "data"


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the URL of a running PostgreSQL, as a superuser."""
    if given := os.environ.get(SERVER_URL_VARIABLE):
        yield given
        return
    with _shared(tmp_path_factory, "server", _embedded_server) as url:
        yield url


@pytest.fixture(scope="session")
def template_database(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the name of a database that holds the schema and nothing else."""
    with _shared(tmp_path_factory, "template", lambda: _template(postgres_url)) as name:
        yield name


@pytest.fixture
def database_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """Give the URL of a fresh database with the schema, dropped after the test."""
    with _database(postgres_url, f"TEMPLATE {template_database} STRATEGY wal_log") as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """Give the URL of a fresh database without the schema, dropped after the test."""
    with _database(postgres_url, "TEMPLATE template0") as url:
        yield url


@contextlib.contextmanager
def _scratch_directory() -> Iterator[Path]:
    in_memory = MEMORY_DISK.is_dir() and shutil.disk_usage(MEMORY_DISK).free >= MEMORY_DISK_FREE_MIN
    scratch = Path(tempfile.mkdtemp(prefix="telesto-test-", dir=MEMORY_DISK if in_memory else None))
    scratch.chmod(0o711)
    try:
        yield scratch
    finally:
        _end_servers_in(scratch / "data")
        shutil.rmtree(scratch)


def _end_servers_in(directory: Path) -> None:
    """End the server of an owner that a test killed; it may still be writing."""
    from telesto.db.embedded_process import end_leftovers

    end_leftovers(directory / "postgresql")


@contextlib.contextmanager
def _embedded_server() -> Iterator[str]:
    from telesto.db.embedded import EmbeddedServer

    with _scratch_directory() as scratch, EmbeddedServer(scratch / "data", settings=TEST_SETTINGS) as server:
        yield server.url


@contextlib.contextmanager
def _template(server_url: str) -> Iterator[str]:
    from telesto.db import schema

    with _database(server_url, "TEMPLATE template0", prefix="telesto_template") as url:
        schema.upgrade(url)
        yield urlsplit(url).path.lstrip("/")


@contextlib.contextmanager
def _database(server_url: str, how: str, prefix: str = "telesto_test") -> Iterator[str]:
    name = f"{prefix}_{uuid.uuid4().hex}"
    _execute(server_url, f"CREATE DATABASE {name} {how}")
    try:
        yield urlsplit(server_url)._replace(path=f"/{name}").geturl()
    finally:
        _execute(server_url, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(url: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


@contextlib.contextmanager
def _shared(factory: pytest.TempPathFactory, name: str, make: Any) -> Iterator[str]:
    """Share a resource, told by a string, among the workers of a run; who comes first makes and ends it."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    told = root / f"{name}.json"
    with (root / f"{name}.users").open("a") as users, contextlib.ExitStack() as owned:
        with _locked(root / f"{name}.lock"):
            fcntl.flock(users, fcntl.LOCK_SH)
            if told.exists():
                value = json.loads(told.read_text())
            else:
                value = owned.enter_context(make())
                told.write_text(json.dumps(value))
                owned.callback(told.unlink)
                owned.callback(fcntl.flock, users, fcntl.LOCK_EX)  # waits until all others are done
        try:
            yield value
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
