"""One of two PostgreSQL servers that replicate: it can be killed, frozen, promoted and rewound."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import asyncpg

from telesto.db.embedded.account import Account, give, let_pass
from telesto.db.embedded.binaries import Binaries, find_binaries, launch_command, run_program
from telesto.db.embedded.cluster import DATABASE, SUPERUSER, DataDirectory
from telesto.db.embedded.process import Postmaster, end_leftovers
from telesto.db.embedded.settings import (
    free_mib,
    identity_settings,
    memory_mib,
    queue_settings,
    write_own_settings,
)

from .processes import PATIENCE_S, free_port
from .proxy import Address, Proxy

#: Small and quick: a standby that lost its primary asks again at once, and a dead peer is noticed soon.
_SETTINGS = {
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "min_wal_size": "80MB",
    "log_min_messages": "warning",
    # The middlewares of a run are superusers, for whom none must be left when all connections are taken.
    "superuser_reserved_connections": "0",
    "wal_keep_size": "256MB",
    "wal_retrieve_retry_interval": "100ms",
    "wal_receiver_timeout": "5s",
    "wal_sender_timeout": "5s",
}
_STANDBY_SIGNAL = "standby.signal"
_POLL_S = 0.01


class Node:
    """A server of a pair.

    Attributes:
        name: what the other one knows it by.
        port: where it listens.
        upstream: the way by which it replicates from the other one, as long as it is a standby.
    """

    def __init__(self, name: str, directory: Path, settings: Mapping[str, str]) -> None:
        self.name = name
        self.port = free_port()
        self.upstream = Proxy(("127.0.0.1", 0))
        self.settings = dict(settings)
        self._files = DataDirectory(directory / name)
        self._binaries: Binaries
        self._account: Account
        self._postmaster: Postmaster | None = None
        self._frozen: list[int] = []

    # --- where it is -------------------------------------------------------------------------

    @property
    def address(self) -> Address:
        """Where it listens."""
        return "127.0.0.1", self.port

    @property
    def password(self) -> str:
        """The superuser's password."""
        return self._files.password

    @property
    def url(self) -> str:
        """Leads straight to this server."""
        return f"postgresql://{SUPERUSER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def made(self) -> bool:
        """Whether its cluster has been made."""
        return self._files.initialised

    @property
    def running(self) -> bool:
        """Whether its postmaster has not ended."""
        return self._postmaster is not None and self._postmaster.running

    async def execute(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        """Executes a statement on a connection of its own; returns its rows."""
        connection = await asyncpg.connect(self.url)
        try:
            return list(await connection.fetch(sql, *arguments))
        finally:
            await connection.close()

    async def value(self, sql: str, *arguments: object) -> object:
        """The first value that a statement gives."""
        return (await self.execute(sql, *arguments))[0][0]

    # --- making it ---------------------------------------------------------------------------

    async def make(self) -> None:
        """Makes a new cluster."""
        await asyncio.to_thread(self._prepare)
        await asyncio.to_thread(self._files.initialise, self._binaries, self._account)

    async def copy(self, source: Node) -> None:
        """Makes a copy of another server, which runs: a standby of it."""
        await asyncio.to_thread(self._prepare)
        shutil.copy2(source._files.password_file, self._files.password_file)
        cluster = self._files.cluster
        cluster.mkdir(mode=0o700)
        give(cluster, self._account)
        backup = ["--dbname", source.url, "--pgdata", str(cluster), "--checkpoint=fast", "--no-sync"]
        await self._run("pg_basebackup", *backup)
        self.become_standby()

    def _prepare(self) -> None:
        self._files.create()
        self._binaries = find_binaries()
        self._account = self._files.account()
        let_pass(self._binaries.directory, self._account)

    async def rewind(self, source: Node) -> None:
        """Undoes what the other server, the primary by now, never got; it is a standby of that one then."""
        await source.execute("CHECKPOINT")  # only then does the source say that its history has forked
        cluster = str(self._files.cluster)
        await self._run("pg_rewind", "--target-pgdata", cluster, "--source-server", source.url, "--no-sync")
        self.become_standby()

    def become_standby(self) -> None:
        """Is a standby from the next start on; what it has the primary must have too."""
        path = self._files.cluster / _STANDBY_SIGNAL
        path.touch(mode=0o600)
        give(path, self._account)

    async def _run(self, program: str, *arguments: str) -> None:
        path = self._binaries.program(program)
        done, output = await asyncio.to_thread(run_program, self._account, path, list(arguments))
        if not done:
            raise RuntimeError(f"{program} failed: {output}")

    # --- starting and ending it --------------------------------------------------------------

    async def start(self) -> None:
        """Starts the server; returns when it answers queries."""
        assert not self.running
        self.write_settings()
        self._files.prepare_log(self._account)
        command = launch_command(self._account, self._binaries.program("postgres"), self._arguments())
        self._postmaster = Postmaster(command, self._files.start_log, lambda: None)
        self._postmaster.spawn()
        await self.until_ready()

    async def until_ready(self) -> None:
        """Returns when the server answers queries."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await self.execute("SELECT 1")
                except (OSError, asyncpg.PostgresError):
                    if not self.running:
                        lines = "\n".join(self._files.last_log_lines())
                        raise RuntimeError(f"{self.name} did not start:\n{lines}") from None
                    await asyncio.sleep(_POLL_S)
                else:
                    return

    def write_settings(self) -> None:
        """Writes its settings; they hold from its next start, or once it is told to read them."""
        settings = queue_settings(memory_mib(), free_mib(self._files.path)) | _SETTINGS | self.settings
        write_own_settings(self._files.cluster, settings, self._account)

    async def reload(self) -> None:
        """Has the running server read its settings anew."""
        self.write_settings()
        await self.execute("SELECT pg_reload_conf()")

    def _arguments(self) -> list[str]:
        host, port = self.upstream.address
        settings = identity_settings(self.port, self._files.log_dir) | {
            "cluster_name": self.name,
            "primary_conninfo": (
                f"host={host} port={port} user={SUPERUSER} password={self.password} "
                f"application_name={self.name}"
            ),
        }
        arguments = ["-D", str(self._files.cluster)]
        for name, value in settings.items():
            arguments += ["-c", f"{name}={value}"]
        return arguments

    async def promote(self) -> None:
        """Makes the standby the primary; returns when it takes writes."""
        await self.execute("SELECT pg_promote(wait := false)")
        async with asyncio.timeout(PATIENCE_S):
            while await self.value("SELECT pg_is_in_recovery()"):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(_POLL_S)

    async def shut_down(self, number: int = signal.SIGINT) -> None:
        """Ends the server: in good order, or by SIGQUIT at once."""
        assert self._postmaster is not None
        os.kill(self._postmaster.pid, number)
        await self._until_ended()

    async def kill(self) -> None:
        """Kills all its processes at once, also frozen ones, as if its machine were gone."""
        if not self.running:
            return
        for pid in self._stop_all():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._frozen = []
        await self._until_ended()

    async def _until_ended(self) -> None:
        assert self._postmaster is not None
        assert await asyncio.to_thread(self._postmaster.wait, PATIENCE_S), f"{self.name} did not end"
        await asyncio.to_thread(end_leftovers, self._files.cluster)

    # --- freezing it -------------------------------------------------------------------------

    def freeze(self) -> None:
        """Stops all its processes; its connections stay open, and its kernel goes on acknowledging."""
        self._frozen = self._stop_all()

    def thaw(self) -> None:
        """Lets its processes go on, as if nothing had been."""
        frozen, self._frozen = self._frozen, []
        for pid in reversed(frozen):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _stop_all(self) -> list[int]:
        """Stops the postmaster first, so that no process is made meanwhile; returns all of them."""
        assert self._postmaster is not None
        stopped = [self._postmaster.pid]
        os.kill(stopped[0], signal.SIGSTOP)
        children = Path(f"/proc/{stopped[0]}/task/{stopped[0]}/children").read_text().split()
        for pid in map(int, children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
        return stopped

    async def close(self) -> None:
        """Ends everything at once."""
        await self.kill()
        await self.upstream.close()
