"""A whole service for the time of the demonstration: PostgreSQL and two middlewares, each a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from telesto.cli.admin.database import explained_errors
from telesto.cli.demo.processes import Process, last_line, running
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError

MIDDLEWARES = 2


@contextmanager
def running_service(data_dir: Path, log: Path) -> Iterator[list[str]]:
    """Run the service for the time of the block; yields the addresses (host:port) of its middlewares."""
    from telesto.db import schema
    from telesto.db.embedded.login import renew_login
    from telesto.db.embedded.server import EmbeddedServer

    with ExitStack() as stack:
        with explained_errors():
            server = stack.enter_context(EmbeddedServer(data_dir))
            schema.upgrade(server.url)
            # The URL holds a password, and command lines are open to everybody on the machine.
            environment = {"TELESTO_DATABASE_URL": renew_login(server.url)}
        middlewares = [
            stack.enter_context(running("middleware", [], log, environment)) for _ in range(MIDDLEWARES)
        ]
        yield [_address(middleware, log) for middleware in middlewares]


def _address(middleware: Process, log: Path) -> str:
    """The address that a middleware prints once it listens."""
    line = middleware.stdout.readline() if middleware.stdout is not None else b""
    if not line:
        raise CommandError(f"a middleware did not start: {last_line(log)}", ExitCode.REFUSED)
    return str(json.loads(line)["address"])
