"""Locks that a test holds, so that calls wait for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from wire import until

_WAITING = """
SELECT count(*) FROM pg_locks
WHERE NOT granted AND locktype = 'advisory'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@asynccontextmanager
async def locked(
    database_url: str, queue_id: int, key_function: str = "put_lock_key"
) -> AsyncIterator[asyncpg.Connection]:
    """Holds a lock of a queue; gives a connection that is no part of it."""
    holder, watcher = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    await holder.execute("BEGIN")
    await holder.execute(f"SELECT pg_advisory_xact_lock(telesto.{key_function}($1))", queue_id)
    try:
        yield watcher
    finally:
        await holder.close()
        await watcher.close()


async def until_blocked(watcher: asyncpg.Connection) -> None:
    """Returns when a call waits for a lock."""
    await until(lambda: watcher.fetchval(_WAITING))
