"""Starts the tiers: PostgreSQL with the schema, a database for each run, middleware processes."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from telesto.benchmarks.tiers.connection import connected, settings_of
from telesto.benchmarks.tiers.usage import parent_of
from telesto.db import schema
from telesto.db.embedded.server import EmbeddedServer

DATA_DIRECTORY: Final = "database"
TEMPLATE: Final = "template"


class Databases:
    """Creates and drops the databases of an experiment's runs, on a server where that is allowed."""

    def __init__(self, server_url: str, experiment: str, seed: int) -> None:
        self._server_url = server_url
        self._prefix = f"bench_{experiment.replace('-', '_')}_{seed}"

    def name_of(self, run_name: str) -> str:
        """Return the name of a run's database."""
        return f"{self._prefix}_{run_name}"

    @asynccontextmanager
    async def prepared(self) -> AsyncIterator[None]:
        """Keep the template of all databases while the block runs."""
        template = self.name_of(TEMPLATE)
        await self.drop(TEMPLATE)
        await self._execute(f"CREATE DATABASE {template}")
        try:
            await asyncio.to_thread(schema.upgrade, self.url_of(template))
            yield
        finally:
            await self.drop(TEMPLATE)

    async def create(self, run_name: str) -> str:
        """Create an empty database for a run, replacing an old one; return its URL."""
        name, template = self.name_of(run_name), self.name_of(TEMPLATE)
        await self.drop(run_name)
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY wal_log")
        return self.url_of(name)

    async def drop(self, run_name: str) -> None:
        """Drop the database of a run if there is one."""
        await self._execute(f"DROP DATABASE IF EXISTS {self.name_of(run_name)} WITH (FORCE)")

    def url_of(self, name: str) -> str:
        """Return the URL of a database of the server."""
        return with_database(self._server_url, name)

    async def _execute(self, statement: str) -> None:
        async with connected(self._server_url) as connection:
            await connection.execute(statement)


def with_database(url: str, name: str) -> str:
    """Return the URL with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@contextmanager
def running_server(directory: Path) -> Iterator[str]:
    """Run the server of an experiment's directory; yield its URL."""
    # The server may run under another account, which must be able to enter.
    os.chmod(directory, 0o711)
    with EmbeddedServer(directory / DATA_DIRECTORY) as server:
        yield server.url


HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 15.0
POLL_S: Final = 0.05


class MiddlewareFailedError(Exception):
    """A middleware ended or did not answer in time; the message ends with its output."""


class NotLocalError(Exception):
    """PostgreSQL runs on another machine, where its processes cannot be seen."""


@dataclass(frozen=True, slots=True)
class Database:
    """The database tier: its URL, its main process, its settings."""

    url: str
    postmaster: int
    settings: Mapping[str, str]


@contextmanager
def running_database(directory: Path) -> Iterator[str]:
    """Start an embedded PostgreSQL with Telesto's schema in `directory`; yield its URL."""
    with EmbeddedServer(directory) as server:
        schema.upgrade(server.url)
        yield server.url


async def describe_database(url: str) -> Database:
    """Find the postmaster of a PostgreSQL on this machine, and the settings that matter for figures."""
    async with connected(url) as connection:
        backend: int = await connection.fetchval("SELECT pg_backend_pid()")
        settings = await settings_of(connection)
        postmaster = parent_of(backend)
    if not postmaster:
        raise NotLocalError("PostgreSQL does not run on this machine: its CPU seconds cannot be read")
    return Database(url, postmaster, settings)


@asynccontextmanager
async def old_snapshot(database_url: str) -> AsyncIterator[None]:
    """Hold a REPEATABLE READ snapshot that has read every table, as a report or a dump does."""
    async with (
        connected(database_url) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'telesto'")
        for row in tables:
            await connection.fetchval(f'SELECT count(*) FROM telesto."{row["tablename"]}"')
        yield


@dataclass(slots=True)
class Middlewares:
    """The middleware tier: processes that listen on ports of this machine."""

    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    admin_ports: list[int] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        """One URL for each middleware."""
        return [f"telesto://{HOST}:{port}" for port in self.ports]

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process in self.processes]


@asynccontextmanager
async def running_middlewares(
    database_url: str, directory: Path, count: int = 1, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Middlewares]:
    """Start `count` middlewares with settings from the environment (`TELESTO_...`); stop them at the end.

    Their output goes to `middleware-PORT.log` in `directory`.
    """
    middlewares = Middlewares()
    try:
        for _ in range(count):
            port, admin_port = _free_ports()
            environment = _environment(database_url, port, admin_port, settings or {})
            with (directory / f"middleware-{port}.log").open("wb") as log:
                command = [sys.executable, "-m", "telesto.middleware"]
                process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)  # noqa: ASYNC220
            middlewares.processes.append(process)
            middlewares.ports.append(port)
            middlewares.admin_ports.append(admin_port)
        for process, port in zip(middlewares.processes, middlewares.ports, strict=True):
            await _listening(process, port, directory / f"middleware-{port}.log")
        yield middlewares
    finally:
        for process in middlewares.processes:
            process.terminate()
        for process in middlewares.processes:
            await asyncio.to_thread(_end, process)


def _environment(
    database_url: str, port: int, admin_port: int, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a middleware; the caller's own Telesto settings are left out."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TELESTO_")}
    own = {
        "TELESTO_DATABASE_URL": database_url,
        "TELESTO_HOST": HOST,
        "TELESTO_PORT": str(port),
        "TELESTO_ADMIN_PORT": str(admin_port),
    }
    return inherited | own | dict(settings)


async def _listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until a middleware accepts connections."""
    deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
    while process.poll() is None and asyncio.get_running_loop().time() < deadline:
        try:
            _, writer = await asyncio.open_connection(HOST, port)
        except OSError:
            await asyncio.sleep(POLL_S)
            continue
        writer.close()
        return
    written = log.read_text(errors="replace")[-2000:]  # noqa: ASYNC240
    raise MiddlewareFailedError(
        f"the middleware on port {port} does not listen (exit {process.poll()}): {written}"
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports() -> tuple[int, int]:
    """Return two ports that are free now. Both are held until both are known, so that they differ."""
    with socket.socket() as first, socket.socket() as second:
        first.bind((HOST, 0))
        second.bind((HOST, 0))
        return first.getsockname()[1], second.getsockname()[1]
