"""Connections to PostgreSQL, and the settings that matter for figures. It imports nothing else of Telesto."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

SHOWN_SETTINGS: Final = (
    *("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method"),
    *("wal_compression", "shared_buffers", "max_wal_size"),
)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Connect to a database for one block."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def settings_of(connection: asyncpg.Connection) -> dict[str, str]:
    """Return the SHOWN_SETTINGS of a server."""
    return {name: str(await connection.fetchval(f"SHOW {name}")) for name in SHOWN_SETTINGS}
