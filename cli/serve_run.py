"""Running the service: the database first, then one or several middlewares, until a signal."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from pydantic import SecretStr

from telesto.cli import output
from telesto.cli.database import explained_errors, one_line
from telesto.cli.exit_codes import ExitCode
from telesto.cli.failures import CommandError, usage_error
from telesto.cli.serve_announce import Announcement
from telesto.cli.serve_embedded import embedded_database
from telesto.cli.serve_processes import serve_processes
from telesto.cli.serve_settings import has_database
from telesto.cli.serve_single import serve_single
from telesto.cli.serve_stop import Stop
from telesto.db import schema
from telesto.db.url import with_time_limit, without_password
from telesto.middleware import listening
from telesto.middleware.logs import configure
from telesto.middleware.settings import ServerSettings

FIRST_PAUSE_S = 0.2


@dataclass(frozen=True)
class ServePlan:
    """What the user asked for."""

    settings: ServerSettings
    data_dir: Path
    upgrade: bool
    as_json: bool


def run_service(plan: ServePlan) -> int:
    """Serve until a signal; returns the exit status.

    Raises CommandError when the port or the data directory is in use, the database cannot be reached or its
    schema does not fit.
    """
    configure(plan.settings.log_level, json=plan.settings.log_json)
    stop = Stop()
    with _address_errors(plan.settings):
        # Before the database is started: a port in use should be told at once.
        listening.bind(plan.settings).close()
        with _database(plan, stop) as url:
            settings = plan.settings.model_copy(update={"database_url": SecretStr(url)})
            announcement = Announcement(None if has_database(plan.settings) else plan.data_dir, plan.as_json)
            serve = serve_single if settings.processes == 1 else serve_processes
            try:
                return serve(settings, announcement, stop)
            finally:
                stop.served()


@contextmanager
def _database(plan: ServePlan, stop: Stop) -> Iterator[str]:
    """A database that is there and fits this release: its URL."""
    if has_database(plan.settings):
        url = plan.settings.database_url.get_secret_value()
        with explained_errors(url):
            _await_database(url, plan.settings)
            if plan.upgrade:
                schema.upgrade(url)
            schema.require_current(url)
        yield url
        return
    with embedded_database(plan.data_dir) as server:
        stop.at_once = server.stop
        yield server.url


def _await_database(url: str, settings: ServerSettings) -> None:
    """Wait until the database can be reached; raises psycopg.OperationalError after `database_start_s`."""
    limit_s = settings.database_start_s
    limited_url = with_time_limit(url, settings.database_connect_s)
    deadline = time.monotonic() + limit_s
    pause_s = FIRST_PAUSE_S
    told = False
    while True:
        try:
            psycopg.connect(limited_url).close()
        except psycopg.OperationalError as error:
            reason = one_line(error)
            if time.monotonic() + pause_s > deadline:
                raise
        else:
            return
        if not told:
            output.print_error(
                f"cannot reach the database {without_password(url)}: {reason}; trying for {limit_s:g} s"
            )
            told = True
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 2.0)


@contextmanager
def _address_errors(settings: ServerSettings) -> Iterator[None]:
    """Turn what listening raises into a CommandError."""
    where = f"{settings.host}:{settings.port}"
    try:
        yield
    except socket.gaierror as error:
        raise usage_error(f"cannot listen on {where}: the host's name cannot be resolved") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"cannot listen on {error.strerror}; stop what listens there, or choose another port "
                "(--port; make run PORT=...)",
                ExitCode.IN_USE,
            ) from error
        if error.errno in (errno.EACCES, errno.EADDRNOTAVAIL):
            raise usage_error(f"cannot listen on {error.strerror}") from error
        raise
