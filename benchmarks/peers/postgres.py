"""PostgreSQL servers for the peers that live in one: as Telesto's own, with the same settings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import asyncpg

from telesto.benchmarks.peers.interface import PeerUnavailableError
from telesto.db.embedded.server import EmbeddedServer, EmbeddedServerError

_SHOWN: Final = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "wal_compression",
    "shared_buffers",
    "max_wal_size",
)


class PostgresServer:
    """An embedded PostgreSQL; `binaries` is the directory of its programs, by default Telesto's own."""

    def __init__(self, binaries: Path | None = None) -> None:
        self._binaries = binaries
        self._server: EmbeddedServer | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        assert self._server is not None
        return self._server.url

    async def start(self, directory: Path) -> None:
        """Make a cluster and start it. Raises PeerUnavailableError."""
        server = EmbeddedServer(directory / "data", binaries=self._binaries)
        try:
            await asyncio.to_thread(server.start)
        except EmbeddedServerError as error:
            raise PeerUnavailableError(str(error)) from error
        self._server = server

    async def stop(self) -> None:
        """End it."""
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)

    def roots(self) -> Iterable[int]:
        """The postmaster."""
        return [self._server.pid] if self._server is not None and self._server.pid else []

    async def make_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(f'CREATE DATABASE "{name}"')
        finally:
            await connection.close()
        return f"{self.url.rpartition('/')[0]}/{name}"


async def described(url: str) -> dict[str, str]:
    """Return the version and the settings of a server that matter for figures."""
    connection = await asyncpg.connect(url)
    try:
        shown = {name: str(await connection.fetchval(f"SHOW {name}")) for name in _SHOWN}
    finally:
        await connection.close()
    version = shown.pop("server_version")
    settings = ", ".join(f"{name} = {value}" for name, value in shown.items())
    return {"PostgreSQL": f"{version}; Telesto's settings for an embedded server: {settings}"}
