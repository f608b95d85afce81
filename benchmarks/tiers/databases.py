"""The databases of an experiment: a server in the experiment's directory, a database for each run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from telesto.db import schema
from telesto.db.embedded.server import EmbeddedServer

DATA_DIRECTORY: Final = "database"
TEMPLATE: Final = "template"


class Databases:
    """Makes and removes the databases of an experiment's runs, on a server where that is allowed."""

    def __init__(self, server_url: str, experiment: str, seed: int) -> None:
        self._server_url = server_url
        self._prefix = f"bench_{experiment.replace('-', '_')}_{seed}"

    def name_of(self, run_name: str) -> str:
        """Return the name of a run's database."""
        return f"{self._prefix}_{run_name}"

    @asynccontextmanager
    async def prepared(self) -> AsyncIterator[None]:
        """Have the database that all others are copies of, while the block runs."""
        template = self.name_of(TEMPLATE)
        await self.drop(TEMPLATE)
        await self._execute(f"CREATE DATABASE {template}")
        try:
            await asyncio.to_thread(schema.upgrade, self.url_of(template))
            yield
        finally:
            await self.drop(TEMPLATE)

    async def create(self, run_name: str) -> str:
        """Make an empty database for a run, removing what there may be of it; return its URL."""
        name, template = self.name_of(run_name), self.name_of(TEMPLATE)
        await self.drop(run_name)
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY wal_log")
        return self.url_of(name)

    async def drop(self, run_name: str) -> None:
        """Remove the database of a run if there is one."""
        await self._execute(f"DROP DATABASE IF EXISTS {self.name_of(run_name)} WITH (FORCE)")

    def url_of(self, name: str) -> str:
        """Return the URL of a database of the server."""
        return with_database(self._server_url, name)

    async def _execute(self, *statements: str) -> None:
        connection = await asyncpg.connect(self._server_url)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()


def with_database(url: str, name: str) -> str:
    """Return a URL with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@contextmanager
def running_server(directory: Path) -> Iterator[str]:
    """Run the server of an experiment's directory; give its URL."""
    # The server may run under an account of its own, which has to pass.
    os.chmod(directory, 0o711)
    with EmbeddedServer(directory / DATA_DIRECTORY) as server:
        yield server.url
