"""The messages of a run that the database still holds: identities, read in PostgreSQL's COPY format."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import asyncpg
import numpy as np

from telesto.benchmarks.load.bodies import IDENTITY_BYTES
from telesto.benchmarks.results.audit import Identities, Stored

WAITING_TABLES: Final = ("messages", "delayed_messages", "keyed_messages", "dead_letters")
HANDED_OVER_TABLES: Final = ("deliveries", "leases")

_QUEUE_ROWS: Final = (
    "SELECT substr(body, 1, {bytes}) FROM telesto.{table} WHERE queue_id = ANY(ARRAY[{queues}]::bigint[])"
)
_TOPIC_ROWS: Final = """
SELECT substr(m.body, 1, {bytes})
FROM telesto.topic_messages AS m
JOIN telesto.subscriptions AS s ON s.topic_id = m.topic_id
WHERE s.subscription_id = {subscription}
  AND m.number > (
    SELECT p.position FROM telesto.positions AS p
    WHERE p.subscription_id = s.subscription_id ORDER BY p.version DESC LIMIT 1)
"""
# PostgreSQL's binary format: a header; for each row the number of its columns and their lengths; a trailer.
_HEADER_BYTES: Final = 19
_TRAILER_BYTES: Final = 2
_ROW: Final = np.dtype([("columns", ">i2"), ("length", ">i4"), ("identity", ">u8")])


async def stored_in_queues(connection: asyncpg.Connection, queue_ids: Sequence[int]) -> Stored:
    """Return the content of some queues. Needs the right to read Telesto's tables."""
    queues = ", ".join(map(str, queue_ids))

    async def read(tables: Sequence[str]) -> Identities:
        statements = [
            _QUEUE_ROWS.format(table=table, queues=queues, bytes=IDENTITY_BYTES) for table in tables
        ]
        return await _identities(connection, " UNION ALL ".join(statements))

    return Stored(await read(WAITING_TABLES), await read(HANDED_OVER_TABLES))


async def stored_for_subscription(connection: asyncpg.Connection, subscription_id: int) -> Identities:
    """Return the messages of a topic after the position of a subscription."""
    statement = _TOPIC_ROWS.format(subscription=subscription_id, bytes=IDENTITY_BYTES)
    return await _identities(connection, statement)


async def _identities(connection: asyncpg.Connection, statement: str) -> Identities:
    with tempfile.NamedTemporaryFile(prefix="telesto-bench-") as file:
        path = Path(file.name)
        await connection.copy_from_query(statement, output=path, format="binary")
        size = path.stat().st_size - _HEADER_BYTES - _TRAILER_BYTES  # noqa: ASYNC240
        count, rest = divmod(size, _ROW.itemsize)
        rows = np.fromfile(path, _ROW, count, offset=_HEADER_BYTES)
    if rest or np.any(rows["length"] != IDENTITY_BYTES):
        raise ValueError("the queues hold messages that the benchmarks did not put")
    return rows["identity"].astype(np.uint64)
