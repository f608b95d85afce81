"""Waits for the database when the middleware starts."""

from __future__ import annotations

import asyncio

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from telesto.db import schema
from telesto.middleware.logs import logger
from telesto.middleware.settings import ServerSettings

_log = logger("start")
_FIRST_PAUSE_S = 0.1


async def wait_for_database(settings: ServerSettings) -> None:
    """Returns once the database is there and its schema fits this release.

    Raises SchemaTooOldError or SchemaTooNewError, which name the command to run, and psycopg.OperationalError
    when the database cannot be had by ``database_start_s``.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.database_start_s
    url = _with_time_limit(settings)
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            await asyncio.to_thread(schema.require_current, url)
        except psycopg.OperationalError as error:
            if loop.time() + pause_s > deadline:
                raise
            _log.warning("no_database", error=str(error).strip(), next_attempt_s=pause_s)
        else:
            return
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, settings.database_backoff_s)


def _with_time_limit(settings: ServerSettings) -> str:
    """The database's URL with a time limit for connecting, if it has none of its own."""
    url = settings.database_url.get_secret_value()
    if "connect_timeout" in conninfo_to_dict(url):
        return url
    return make_conninfo(url, connect_timeout=max(1, round(settings.database_connect_s)))
