"""The embedded PostgreSQL of a running service: started, upgraded, started again if it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from telesto.cli.admin.database import explained_errors
from telesto.cli.terminal import output
from telesto.db import schema
from telesto.db.embedded.cluster import DataDirectory
from telesto.db.embedded.login import renew_login
from telesto.db.embedded.server import EmbeddedServer, EmbeddedServerError, StartFailedError

WATCH_INTERVAL_S = 1.0


@contextmanager
def embedded_database(data_dir: Path) -> Iterator[tuple[EmbeddedServer, str]]:
    """Run a PostgreSQL in `data_dir` for the block; yield it, and the URL by which middlewares reach it.

    Raises CommandError if it cannot be started.
    """
    if _is_to_be_made(data_dir):
        output.print_note(f"creating a PostgreSQL database in {data_dir} ...")
    server = EmbeddedServer(data_dir)
    stopping = threading.Event()
    watcher = threading.Thread(target=_watch, args=(server, stopping), name="postgresql", daemon=True)
    try:
        with explained_errors():
            server.start()
            schema.upgrade(server.url)
            url = renew_login(server.url)
        watcher.start()
        yield server, url
    finally:
        stopping.set()
        if watcher.is_alive():
            watcher.join()
        server.stop()


def _is_to_be_made(data_dir: Path) -> bool:
    """Whether there is no database yet; the server reports a directory that cannot be read."""
    try:
        return not DataDirectory(data_dir).initialised
    except OSError:
        return False


def _watch(server: EmbeddedServer, stopping: threading.Event) -> None:
    """Restart the server if it ended by itself, and watch its disk.

    The middlewares reconnect on their own.
    """
    while not stopping.wait(WATCH_INTERVAL_S):
        if server.mind_disk():
            output.print_error(f"the disk of {server.data_dir} is full; free space, or take messages out")
        if server.running:
            continue
        output.print_error("PostgreSQL has ended unexpectedly; telesto starts it again")
        try:
            server.start()
        except StartFailedError as error:
            output.print_error(error.problem, error.log_lines)
        except EmbeddedServerError as error:
            output.print_error(str(error))
