"""How the middleware connects to PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

import asyncpg

from telesto.middleware.common.database_url import Server
from telesto.middleware.common.settings import ServerSettings

#: Microseconds from the Unix epoch to PostgreSQL's, 2000-01-01.
_POSTGRES_EPOCH_US = 946_684_800_000_000

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection


#: Classes of SQLSTATE of a server that cannot accept a connection now: it starts or stops, has no connection
#: left, or an administrator has closed the database for a while.
_PASSING = ("08", "40", "53", "55", "57", "58", "XX")
#: asyncpg has no exception class for it.
_NO_TLS = "rejected SSL upgrade"


class RejectedConnectionError(OSError):
    """The server refuses the connection and would refuse the next one too: a password, name, right or TLS."""


async def connect_to(server: Server, dsn: str, name: str, timeout_s: float, silent_ms: int) -> Connection:
    """Opens a connection to one server. Its settings override those of the role and the database.

    A backend that blocks while it sends to a hanging middleware keeps its locks, and so does one whose
    middleware's machine is gone. tcp_user_timeout ends both, on either side of the connection.

    Raises CONNECT_ERRORS, among them RejectedConnectionError where waiting does not help.
    """
    try:
        connection = await _connect(server, dsn, name, timeout_s, silent_ms)
    except asyncpg.PostgresError as error:
        sqlstate = error.sqlstate or ""
        if sqlstate.startswith(_PASSING):
            raise
        raise RejectedConnectionError(f"{brief(error)} ({sqlstate})") from error
    except (asyncpg.ClientConfigurationError, ssl.SSLCertVerificationError) as error:
        raise RejectedConnectionError(str(error)) from error
    except ConnectionError as error:
        if _NO_TLS not in str(error):
            raise
        raise RejectedConnectionError(str(error)) from error
    _watch_peer(connection, silent_ms)
    return connection


def brief(error: asyncpg.PostgresError) -> str:
    """Returns an error's message without its detail, which may contain a row and so a message's body."""
    return str(error.args[0]) if error.args else type(error).__name__


def reason_of(error: BaseException) -> str:
    """Returns why a connection failed, in the words of the server or of the operating system."""
    if isinstance(error, asyncpg.PostgresError):
        return brief(error)
    if isinstance(error, socket.gaierror):
        return str(error.strerror)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error).strip() or "it did not answer in time"


async def _connect(server: Server, dsn: str, name: str, timeout_s: float, silent_ms: int) -> Connection:
    return await asyncpg.connect(
        dsn,
        host=server.host,
        port=server.port,
        timeout=timeout_s,
        command_timeout=None,
        statement_cache_size=0,
        server_settings={
            "application_name": name,
            "client_min_messages": "warning",
            "default_transaction_isolation": "read committed",
            "tcp_user_timeout": str(silent_ms),
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "2",
            "tcp_keepalives_count": "3",
        },
    )


#: Limits that a release of PostgreSQL does not have are left out.
_LIMIT = """
SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS given (name, value)
WHERE current_setting(name, true) IS NOT NULL
"""


def session_limits(settings: ServerSettings, lock_wait_ms: int | None = None) -> dict[str, str]:
    """Returns PostgreSQL's timeouts for the sessions of a middleware, which override those of its role.

    ``lock_wait_ms`` is how long calls wait for a lock if that is less than ``lock_timeout_s``.
    None of them ends the wait of a commit for a synchronous standby: they stop before it begins.
    """
    seconds = {
        "statement_timeout": settings.statement_timeout_s,
        "lock_timeout": settings.lock_timeout_s,
        "transaction_timeout": settings.transaction_timeout_s,
        "idle_in_transaction_session_timeout": settings.idle_in_transaction_timeout_s,
    }
    limits = {name: round(1000 * value) for name, value in seconds.items()}
    if lock_wait_ms is not None:
        limits["lock_timeout"] = min(lock_wait_ms, limits["lock_timeout"] or lock_wait_ms)
    return {name: f"{value}ms" for name, value in limits.items()}


async def limit_session(connection: Connection, limits: Mapping[str, str]) -> None:
    """Sets ``session_limits``. Raises what asyncpg raises."""
    await connection.execute(_LIMIT, list(limits), list(limits.values()))


async def read_times_as_microseconds(connection: Connection) -> None:
    """Has the connection return timestamps as whole microseconds since 1970."""
    await connection.set_type_codec(
        "timestamptz",
        schema="pg_catalog",
        encoder=_encode_time,
        decoder=_decode_time,
        format="tuple",
    )


def _watch_peer(connection: Connection, silent_ms: int) -> None:
    """Has the kernel end the connection when the server's machine is gone. asyncpg has no option for it."""
    transport: asyncio.Transport = connection._transport  # type: ignore[attr-defined]  # noqa: SLF001
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family == getattr(socket, "AF_UNIX", None):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silent_ms)


def _encode_time(microseconds: int) -> tuple[int]:
    return (microseconds - _POSTGRES_EPOCH_US,)


def _decode_time(value: tuple[int]) -> int:
    return value[0] + _POSTGRES_EPOCH_US


#: What connecting, and the first calls on a new connection, raise when the database is not available. The
#: internal error occurs when the server has ended the connection while asyncpg waits for a message.
CONNECT_ERRORS = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
