"""The processes of a run: PostgreSQL, middlewares, clients. Each can be hurt, and none outlives its owner."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import signal
import socket
import ssl
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from telesto.db import schema
from telesto.db.embedded.server import EmbeddedServer

from ..waiting import until
from .proxy import Address

#: A process that does not do what it is told within so long has failed, in seconds.
PATIENCE_S = 60.0
#: A client ends within so long when it is told to, and a consumer is given a message.
_END_S = 60.0
_POISONED_S = 60.0

#: Below those that the system takes for connections by itself: a middleware starts again on its port.
_PORTS = range(10_000, 32_000)
_PR_SET_PDEATHSIG = 1
_POSTGRES_SETTINGS = {
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "log_min_messages": "warning",
    # The middlewares of a run are superusers, for whom none must be left when all connections are taken.
    "superuser_reserved_connections": "0",
}
_BACKENDS = "FROM pg_stat_activity WHERE application_name LIKE 'telesto %' AND datname = current_database()"
_TERMINATE = f"SELECT pg_terminate_backend(pid) AS it {_BACKENDS}"
_BUSIEST = f"SELECT pid {_BACKENDS} ORDER BY state = 'active' DESC, pid LIMIT 1"


def end_with_parent() -> None:
    """Has the kernel kill this process when the one that started it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    """Returns a port that nobody uses at present, and that the system gives to nobody by itself later."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free")


def _command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """How to run a module of the fault tests, and its environment, free of the user's settings."""
    assert __package__ is not None
    package = __package__.rpartition(".")[0]
    root = Path(__file__).resolve().parents[len(__package__.split("."))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TELESTO_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(root)]))
    return [sys.executable, "-m", f"{package}.{module}", *arguments], environment


class Database(ABC):
    """PostgreSQL with the schema: one server, or several of which one is the primary.

    Faults know nothing else of it, so that another kind of database is another class (see ``pair.Pair``).
    """

    @property
    @abstractmethod
    def url(self) -> str:
        """Leads straight to the servers, all of them."""

    @property
    @abstractmethod
    def primary_url(self) -> str:
        """Leads straight to the one that takes writes."""

    @property
    def primary(self) -> int:
        """Which of the servers in the URL takes writes."""
        return 0

    @property
    def addresses(self) -> list[Address]:
        """Where the servers listen, in the order of the URL."""
        return addresses_of(self.url)

    @abstractmethod
    async def start(self) -> None:
        """Starts what there is to start, first or after ``crash``; recovers what was unfinished."""

    @abstractmethod
    async def stop(self) -> None:
        """Stops everything in good order."""

    @abstractmethod
    async def crash(self) -> None:
        """Stops the primary at once, without a checkpoint; what it had committed is in its log only."""

    async def install(self) -> None:
        """Installs the schema."""
        await asyncio.to_thread(schema.upgrade, self.url)

    async def problems(self) -> list[str]:
        """Says what the schema's own check finds."""
        found = await asyncio.to_thread(schema.check, self.url)
        return [f"{problem.subject}: {problem.detail}" for problem in found]

    async def kill_backend(self) -> int:
        """Kills one of the middlewares' server processes; returns when PostgreSQL has recovered from it."""
        pids = [row["pid"] for row in await self.execute(_BUSIEST)]
        for pid in pids:
            ended = process_end(pid)
            os.kill(pid, signal.SIGKILL)
            await asyncio.wait_for(ended, PATIENCE_S)
        await self._until_ready()
        return len(pids)

    async def _until_ready(self) -> None:
        async def ready() -> bool:
            with suppress(OSError, asyncpg.PostgresError):
                await self.execute("SELECT 1")
                return True
            return False

        await until(ready)

    async def terminate_backends(self) -> int:
        """Ends the middlewares' server processes; returns how many were at work."""
        return len([row for row in await self.execute(_TERMINATE) if row["it"]])

    @asynccontextmanager
    async def exhausted(self) -> AsyncIterator[int]:
        """Takes all connections that the server grants, also those of the middlewares, and gives them back.

        Gives how many of the middlewares' backends were at work.
        """
        hoard: list[asyncpg.Connection[Any]] = []
        struck = 0
        try:
            await self._hoard(hoard)
            while ended := [row["it"] for row in await hoard[0].fetch(_TERMINATE)]:
                struck += sum(ended)
                await self._hoard(hoard)
            yield struck
        finally:
            await asyncio.gather(*(connection.close() for connection in hoard))

    async def _hoard(self, hoard: list[asyncpg.Connection[Any]]) -> None:
        with suppress(asyncpg.TooManyConnectionsError):
            while True:
                hoard.append(await asyncpg.connect(self.primary_url))

    async def execute(self, sql: str, *arguments: object) -> list[Any]:
        """Executes a statement on a connection of its own to the primary; returns its rows."""
        connection = await asyncpg.connect(self.primary_url)
        try:
            return list(await connection.fetch(sql, *arguments))
        finally:
            await connection.close()


class SingleServer(Database):
    """An embedded PostgreSQL."""

    def __init__(self, directory: Path) -> None:
        self._server = EmbeddedServer(directory, settings=_POSTGRES_SETTINGS)

    @property
    def url(self) -> str:
        """Leads straight to the server."""
        return self._server.url

    @property
    def primary_url(self) -> str:
        """Leads there too."""
        return self.url

    async def start(self) -> None:
        """Starts the server; what it did not finish before is recovered."""
        await asyncio.to_thread(self._server.start)

    async def stop(self) -> None:
        """Stops the server in good order."""
        await asyncio.to_thread(self._server.stop)

    async def crash(self) -> None:
        """Stops the server at once, without a checkpoint; what it had committed is in its log only."""
        pid = self._server.pid
        assert pid is not None
        ended = process_end(pid)
        os.kill(pid, signal.SIGQUIT)
        await asyncio.wait_for(ended, PATIENCE_S)
        # Its owner's thread notices a moment later.
        await until(lambda: not self._server.running)


def addresses_of(url: str) -> list[Address]:
    """Returns host and port of each server that a database URL names."""
    hosts = urlsplit(url).netloc.rpartition("@")[2]
    parts = [urlsplit(f"//{host}") for host in hosts.split(",")]
    return [(part.hostname or "127.0.0.1", part.port or 5432) for part in parts]


def with_addresses(url: str, addresses: Sequence[Address]) -> str:
    """Returns a database URL that leads to other servers."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    hosts = ",".join("{}:{}".format(*address) for address in addresses)
    return parts._replace(netloc=user + at + hosts).geturl()


def process_end(pid: int) -> asyncio.Future[None]:
    """Returns a future that is done when the process has ended."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    descriptor = os.pidfd_open(pid)

    def ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        if not future.done():
            future.set_result(None)

    loop.add_reader(descriptor, ended)
    return future


class Process:
    """A process that runs a module of the fault tests, named from their folder on."""

    def __init__(self, module: str, log: Path, environment: Mapping[str, str], *arguments: str) -> None:
        command, clean = _command(module, *arguments)
        self._command = command
        self._environment = {**clean, **environment}
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Starts the process."""
        assert not self.running
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )

    async def line(self) -> str:
        """Waits for the next line that the process says; empty at its end."""
        assert self._process is not None
        assert self._process.stdout is not None
        return (await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_S)).decode()

    def signal(self, number: int) -> None:
        """Sends a signal."""
        if self.running:
            assert self._process is not None
            self._process.send_signal(number)

    async def kill(self) -> int:
        """Kills the process, also a stopped one; returns its exit code."""
        self.signal(signal.SIGKILL)
        return await self.wait()

    async def wait(self, patience_s: float = PATIENCE_S) -> int:
        """Waits for the end; returns the exit code. Raises TimeoutError."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), patience_s)

    async def terminate(self) -> int:
        """Asks the process to end; returns the exit code."""
        self.signal(signal.SIGTERM)
        return await self.wait()


class Middleware(Process):
    """A middleware on a port of its own."""

    def __init__(
        self, log: Path, database_url: str, advertised: Address, settings: Mapping[str, Any]
    ) -> None:
        self.address: Address = ("127.0.0.1", free_port())
        self.admin: Address = ("127.0.0.1", free_port())
        values = {
            "database_url": database_url,
            "port": self.address[1],
            "admin_port": self.admin[1],
            "advertised_address": "{}:{}".format(*advertised),
            "log_json": True,
            **settings,
        }
        self._admin_tls = None
        if "tls_certificate" in settings:
            self._admin_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._admin_tls.check_hostname, self._admin_tls.verify_mode = False, ssl.CERT_NONE
        environment = {f"TELESTO_{name.upper()}": str(value) for name, value in values.items()}
        super().__init__("service.middleware_process", log, environment)

    async def start(self) -> None:
        """Starts the middleware and returns once it serves."""
        await super().start()
        if await self.line() != "serving\n":
            await self.kill()
            raise RuntimeError(f"a middleware did not start; see {self._log}")

    @property
    def descriptors(self) -> int:
        """How many files and sockets the process has open."""
        assert self._process is not None
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    async def figures(self) -> dict[str, float]:
        """Asks for the gauges and counters that have no labels."""
        reader, writer = await asyncio.open_connection(*self.admin, ssl=self._admin_tls)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        try:
            text = (await asyncio.wait_for(reader.read(), PATIENCE_S)).decode()
        finally:
            writer.close()
        lines = (line.split(" ") for line in text.splitlines() if line.startswith("telesto_"))
        return {name.removeprefix("telesto_"): float(value) for name, value in lines if "{" not in name}


class Client(Process):
    """A client: a producer or a reader, see the modules of these names.

    Attributes:
        role: which of these modules, in the folder `clients`.
        replaced: another process takes its place or is about to, or it takes the place of one and is not up.
    """

    def __init__(self, role: str, directory: Path, task: Mapping[str, Any]) -> None:
        self.role = role
        self.replaced = False
        self.name: str = task["name"]
        self.run: int = task["run"]
        self.log = directory / f"{self.name}.{self.run}.log"
        super().__init__(f"clients.{role}", self.log, {}, json.dumps({"history": str(directory), **task}))

    async def end(self) -> int | None:
        """Asks the client to end; returns its exit code. One that does not end shows what it is doing."""
        self.signal(signal.SIGTERM)
        try:
            return await self.wait(_END_S)
        except TimeoutError:
            self.signal(signal.SIGUSR2)
            self.signal(signal.SIGUSR1)
            return None

    async def poison(self) -> int:
        """Lets the next message kill this consumer; kills it when none comes. Returns its exit code."""
        self.signal(signal.SIGHUP)
        try:
            return await self.wait(_POISONED_S)
        except TimeoutError:
            return await self.kill()
