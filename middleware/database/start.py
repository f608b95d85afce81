"""The first calls of a middleware to the database, which it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from telesto.db import schema
from telesto.db.install.url import with_time_limit
from telesto.middleware.common.failures import LostError, RefusedError, UnavailableError
from telesto.middleware.common.logs import logger
from telesto.middleware.common.settings import FRAME_OVERHEAD_BYTES, ServerSettings
from telesto.middleware.database.dsn import CONNECT_ERRORS, RejectedConnectionError, reason_of
from telesto.middleware.database.primary import Epoch, Primary

_log = logger("start")
_FIRST_PAUSE_S = 0.1
#: What an attempt raises while the database is not available, or fails during the attempt.
_AWAY = (psycopg.OperationalError, UnavailableError, LostError, *CONNECT_ERRORS)

T = TypeVar("T")


def _log_absence(reason: str) -> None:
    _log.warning("no_database", error=reason)


class DatabaseStart:
    """The first calls to the database. Each step is repeated while the database is not available.

    All steps together may take ``database_start_s``, counted from when this object was made. It also waits
    for a database that fails between two steps. It does not wait for one that rejects the connection for a
    permanent reason, such as a password, name or right.
    """

    def __init__(self, settings: ServerSettings, tell: Callable[[str], None] = _log_absence) -> None:
        """``tell`` gets the reason when an attempt has failed and another one will follow."""
        self._settings = settings
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + settings.database_start_s

    async def reach(self) -> None:
        """Returns once a server that takes writes accepts connections.

        Raises psycopg.OperationalError if there is none in time, or if the database rejects the connection.
        """
        settings = self._settings
        primary = Primary(
            settings.database_url.get_secret_value(),
            settings.database_connect_s,
            settings.database_silent_ms,
            Epoch(),
        )
        try:
            connection = await self.patiently(lambda: primary.connect("telesto start"))
            connection.terminate()
        finally:
            await primary.close()

    async def check_schema(self) -> None:
        """Returns once the database is available and its schema fits this release.

        Raises SchemaError, which says what to do, and psycopg.OperationalError if the database is not
        available in time.
        """
        settings = self._settings
        url = with_time_limit(settings.database_url.get_secret_value(), settings.database_connect_s)
        status = await self.patiently(lambda: asyncio.to_thread(schema.require_current, url))
        _compare_bounds(status.max_body_bytes, settings)

    async def patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeats an attempt until the database is available.

        Raises psycopg.OperationalError if the time is over or the connection is rejected, and
        psycopg.DatabaseError if the database refuses the attempt.

        An attempt may have been executed although it failed, so it must be safe to repeat.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await attempt()
            except RefusedError as error:
                raise psycopg.DatabaseError(str(error)) from error
            except _AWAY as error:
                reason = reason_of(error)
                rejected = isinstance(error, RejectedConnectionError)
                if rejected or self._loop.time() + pause_s > self._deadline:
                    raise psycopg.OperationalError(reason) from error
                self._tell(reason)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, self._settings.database_backoff_s)


def _compare_bounds(max_body_bytes: int | None, settings: ServerSettings) -> None:
    """Warns if a message put from SQL may be longer than this middleware can hand over."""
    held = settings.max_frame - FRAME_OVERHEAD_BYTES
    if max_body_bytes is not None and max_body_bytes > held:
        _log.warning(
            "sql_bodies_too_long",
            max_body_bytes=max_body_bytes,
            held=held,
            advice="raise max_frame, or lower max_body_bytes of telesto.installation",
        )
