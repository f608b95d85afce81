"""Waits for the database when the middleware starts."""

from __future__ import annotations

import asyncio

import psycopg

from telesto.db import schema
from telesto.db.url import with_time_limit
from telesto.middleware.logs import logger
from telesto.middleware.settings import FRAME_OVERHEAD_BYTES, ServerSettings

_log = logger("start")
_FIRST_PAUSE_S = 0.1


async def wait_for_database(settings: ServerSettings) -> None:
    """Returns once the database is there and its schema fits this release.

    Raises SchemaTooOldError or SchemaTooNewError, which name the command to run, and psycopg.OperationalError
    when the database cannot be had by ``database_start_s``.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.database_start_s
    url = with_time_limit(settings.database_url.get_secret_value(), settings.database_connect_s)
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            status = await asyncio.to_thread(schema.require_current, url)
        except psycopg.OperationalError as error:
            if loop.time() + pause_s > deadline:
                raise
            _log.warning("no_database", error=str(error).strip(), next_attempt_s=pause_s)
        else:
            _compare_bounds(status.max_body_bytes, settings)
            return
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, settings.database_backoff_s)


def _compare_bounds(max_body_bytes: int | None, settings: ServerSettings) -> None:
    """Warns when a message put from SQL may be longer than what this middleware can hand over."""
    held = settings.max_frame - FRAME_OVERHEAD_BYTES
    if max_body_bytes is not None and max_body_bytes > held:
        _log.warning(
            "sql_bodies_too_long",
            max_body_bytes=max_body_bytes,
            held=held,
            advice="raise max_frame, or lower max_body_bytes of telesto.installation",
        )
