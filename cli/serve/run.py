"""Runs the service: the database first, then one or several middlewares, until a signal."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from pydantic import SecretStr

from telesto.cli.admin.database import explained_errors
from telesto.cli.common import variables
from telesto.cli.serve.announce import Announcement
from telesto.cli.serve.embedded import embedded_database
from telesto.cli.serve.processes import serve_processes
from telesto.cli.serve.settings import has_database
from telesto.cli.serve.single import serve_single
from telesto.cli.serve.stop import Stop
from telesto.cli.serve.systemd import ServiceManager
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error
from telesto.db import schema
from telesto.db.embedded.account import Account
from telesto.db.embedded.cluster import DataDirectory
from telesto.db.install.url import without_password
from telesto.middleware.common import listening
from telesto.middleware.common.audit import AuditFile, AuditFileError
from telesto.middleware.common.listening import ExposedError
from telesto.middleware.common.logs import configure, logger
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.common.tls import ServerTls, TlsFilesError
from telesto.middleware.database.start import DatabaseStart
from telesto.middleware.security.tokens import TokenKeyError, TokenKeys

_log = logger("serve")


@dataclass(frozen=True)
class ServePlan:
    """What the user asked for."""

    settings: ServerSettings
    data_dir: Path
    upgrade: bool
    as_json: bool


def run_service(plan: ServePlan) -> int:
    """Serve until a signal; return the exit status.

    Without a database URL a process of root's first becomes one of the account that owns the data.

    Raises CommandError if the port or the data directory is in use, the database cannot be reached or its
    schema does not match.
    """
    configure(plan.settings.log_level, json=plan.settings.log_json)
    variables.tell_unknown(_log_unknown, _log_links)
    manager = ServiceManager()
    stop = Stop(tls=plan.settings.tls_certificate is not None, on_stop=manager.stopping)
    _check_keys(plan.settings, None)
    account = None
    if not has_database(plan.settings):
        # The account may be unable to enter the directory of now.
        plan = replace(plan, data_dir=plan.data_dir.resolve(), settings=_with_absolute_paths(plan.settings))
        with explained_errors():
            account = DataDirectory(plan.data_dir).become_owner()
    if account is not None:
        # What it may not read now, it could not later either, as after a SIGHUP.
        _check_keys(plan.settings, account)
    _check_audit_log(plan.settings, account)
    with _address_errors(plan.settings, account):
        try:
            listening.check_exposure(plan.settings)
        except ExposedError as error:
            raise usage_error(str(error)) from error
        # Before the database starts: a port in use should be reported at once.
        settings = plan.settings
        listening.bind(settings.host, settings.port, reuse_port=settings.reuse_port).close()
        with _database(plan, stop) as settings:
            url = settings.database_url.get_secret_value()
            data_dir = None if has_database(plan.settings) else plan.data_dir
            announcement = Announcement(
                data_dir,
                plan.as_json,
                settings.tls_certificate is not None,
                settings.advertised_address,
                _has_users(url),
                listening.is_exposed(settings) and not settings.insecure,
                manager,
            )
            serve = serve_single if settings.processes == 1 else serve_processes
            try:
                with explained_errors(url if has_database(plan.settings) else None):
                    return serve(settings, announcement, stop)
            finally:
                stop.served()


def _with_absolute_paths(settings: ServerSettings) -> ServerSettings:
    values = {name: getattr(settings, name) for name in type(settings).model_fields}
    return settings.model_copy(
        update={name: value.absolute() for name, value in values.items() if isinstance(value, Path)}
    )


def _as(account: Account | None) -> str:
    """Whose rights count, for an error: those of the account that the process has become."""
    return f"; it runs as the account {account.name}, which owns the data" if account else ""


def _check_audit_log(settings: ServerSettings, account: Account | None) -> None:
    if settings.audit_log is not None:
        try:
            AuditFile(settings.audit_log).close()
        except AuditFileError as error:
            raise usage_error(f"TELESTO_AUDIT_LOG: {error}{_as(account)}") from error


def _check_keys(settings: ServerSettings, account: Account | None) -> None:
    """Raises CommandError for keys and certificates that cannot be used, before anything starts."""
    if settings.jwt_key_file is not None:
        try:
            TokenKeys(settings.jwt_key_file, settings.jwt_audience, settings.jwt_issuer)
        except TokenKeyError as error:
            raise usage_error(f"TELESTO_JWT_KEY_FILE: {error}{_as(account)}") from error
    if settings.tls_certificate is None:
        return
    try:
        tls = ServerTls(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    except TlsFilesError as error:
        raise usage_error(f"cannot use TLS: {error}{_as(account)}") from error
    if tls.left_s() < 0 and account is None:  # else it was told
        output.print_error(
            f"the certificate in {settings.tls_certificate} has expired; clients will refuse it"
        )


def _log_unknown(name: str, nearest: str | None) -> None:
    _log.warning("unknown_variable", name=name, nearest=nearest)


def _log_links(names: list[str]) -> None:
    _log.warning("service_links_ignored", names=names, hint="enableServiceLinks: false")


@contextmanager
def _database(plan: ServePlan, stop: Stop) -> Iterator[ServerSettings]:
    """Yield the settings for a database that is reachable and matches this release."""
    if has_database(plan.settings):
        url = plan.settings.database_url.get_secret_value()
        with explained_errors(url):
            asyncio.run(_await_database(url, plan.settings))
            if plan.upgrade:
                schema.upgrade(url)
            schema.require_current(url)
        yield plan.settings
        return
    with embedded_database(plan.data_dir) as (server, url):
        stop.at_once = server.stop
        directory = plan.settings.disk_directory or server.cluster
        yield plan.settings.model_copy(update={"database_url": SecretStr(url), "disk_directory": directory})


def _has_users(url: str) -> bool:
    """Whether there are users, for what is announced; an error is for the middleware to tell."""
    try:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT has_users FROM telesto.get_login_state()").fetchone()
    except psycopg.Error:
        return False
    return row is not None and bool(row[0])


async def _await_database(url: str, settings: ServerSettings) -> None:
    """Wait until the database can be reached; raises psycopg.OperationalError if it cannot."""
    told = False

    def tell(reason: str) -> None:
        nonlocal told
        if not told:
            where, limit_s = without_password(url), settings.database_start_s
            output.print_error(
                f"cannot reach the database {where}: {reason}; telesto keeps trying for {limit_s:g} s"
            )
        told = True

    await DatabaseStart(settings, tell).reach()


@contextmanager
def _address_errors(settings: ServerSettings, account: Account | None) -> Iterator[None]:
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
            raise usage_error(f"cannot listen on {error.strerror}{_as(account)}") from error
        raise
