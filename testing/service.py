"""``python -m telesto.testing.service DATA_DIR``: fresh services over one embedded PostgreSQL, for tests.

For each line on standard input it prints the URLs of a service and of the database, its own, and ends the
one that it gave last; the next one is made meanwhile. It ends with its input, and so with pytest, however
that ends.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from telesto.db import schema
from telesto.db.embedded.errors import DataDirectoryVersionError, StartFailedError
from telesto.db.embedded.server import EmbeddedServer
from telesto.db.restored import renew_incarnation
from telesto.middleware.common.logs import configure
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.server import MiddlewareServer

#: No test needs its data after a crash of the machine.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_compression": "off",
    "shared_buffers": "128MB",
    "max_wal_size": "256MB",
    "min_wal_size": "64MB",
}
_PREFIX = "telesto_test_"


class FreshService:
    """A middleware and a database of its own, a clone of the embedded server's."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._database = f"{_PREFIX}{uuid.uuid4().hex}"
        self._middleware: MiddlewareServer | None = None

    async def start(self) -> tuple[str, str]:
        """Starts it; returns its URL and that of its database."""
        template = urlsplit(self._server_url).path.lstrip("/")
        statement = f"CREATE DATABASE {self._database} TEMPLATE {template} STRATEGY wal_log"
        await asyncio.to_thread(_execute, self._server_url, statement)
        database_url = urlsplit(self._server_url)._replace(path=f"/{self._database}").geturl()
        await asyncio.to_thread(renew_incarnation, database_url)
        settings = ServerSettings.load(None, host="127.0.0.1", port=0, database_url=database_url)
        middleware = MiddlewareServer(settings)
        await middleware.start()
        self._middleware = middleware
        host, port = middleware.address
        return f"telesto://{host}:{port}", database_url

    async def stop(self) -> None:
        """Stops it and drops its database."""
        if self._middleware is not None:
            self._middleware.request_stop()
            await self._middleware.wait_closed()
        await asyncio.to_thread(_execute, self._server_url, f"DROP DATABASE {self._database} WITH (FORCE)")


async def serve(server_url: str) -> None:
    """Gives a fresh service for each line of standard input, until its end."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    ending: set[asyncio.Task[None]] = set()
    before: FreshService | None = None
    service = FreshService(server_url)
    starting = asyncio.create_task(service.start())
    while await lines.readline():
        print(*await starting, flush=True)
        if before is not None:
            task = asyncio.create_task(before.stop())
            ending.add(task)
            task.add_done_callback(ending.discard)
        before, service = service, FreshService(server_url)
        starting = asyncio.create_task(service.start())
    await starting
    await asyncio.gather(service.stop(), *([before.stop()] if before is not None else []), *ending)


def main(data_dir: Path) -> None:
    """Runs PostgreSQL in a directory, made anew if it cannot be used as it is, and serves."""
    server = EmbeddedServer(data_dir, settings=SETTINGS)
    try:
        server.start()
    except (StartFailedError, DataDirectoryVersionError):  # as after a crash of the machine, without fsync
        shutil.rmtree(data_dir)
        server = EmbeddedServer(data_dir, settings=SETTINGS)
        server.start()
    try:
        schema.upgrade(server.url)
        for name in _left_behind(server.url):
            _execute(server.url, f"DROP DATABASE {name} WITH (FORCE)")
        asyncio.run(serve(server.url))
    finally:
        server.stop()


def _left_behind(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [_PREFIX])
        return [name for (name,) in rows]


def _execute(url: str, statement: str) -> None:
    """Runs a statement in the database that every PostgreSQL has, so that ours may be cloned."""
    with psycopg.connect(urlsplit(url)._replace(path="/postgres").geturl(), autocommit=True) as connection:
        connection.execute(statement.encode())


if __name__ == "__main__":
    configure("warning", json=False)
    main(Path(sys.argv[1]))
