"""Samples taken every second of a run: the tiers' CPU time and memory, PostgreSQL's counters and wait events,
the middlewares' metrics and phases. `tables` describes the columns."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import asyncpg
from prometheus_client.parser import text_string_to_metric_families

from telesto.benchmarks.results.tables import Row, Tables
from telesto.benchmarks.tiers.connection import connected
from telesto.benchmarks.tiers.service import HOST, Database, Middlewares
from telesto.benchmarks.tiers.usage import (
    children,
    cpu_seconds,
    private_bytes,
    shared_bytes,
    tree_cpu_seconds,
)

PERIOD_S: Final = 1.0
ADMIN_TIMEOUT_S: Final = 5.0

# One row for each counter of the server's version: (source, name, value). Checkpoints have their own view in
# later versions, and are in the background writer's before.
_COUNTERS: Final = """
WITH sources (source, counters) AS (
    SELECT 'wal', to_jsonb(w) FROM pg_stat_wal AS w
    UNION ALL
    SELECT 'database', to_jsonb(d) FROM pg_stat_database AS d WHERE d.datname = current_database()
    UNION ALL
    SELECT 'bgwriter', to_jsonb(b) FROM pg_stat_bgwriter AS b
    UNION ALL
    {checkpointer}
    SELECT 'tables', jsonb_build_object(
        'n_dead_tup', sum(t.n_dead_tup), 'n_live_tup', sum(t.n_live_tup), 'n_tup_ins', sum(t.n_tup_ins),
        'n_tup_upd', sum(t.n_tup_upd), 'n_tup_del', sum(t.n_tup_del), 'seq_scan', sum(t.seq_scan),
        'idx_scan', sum(t.idx_scan), 'autovacuum_count', sum(t.autovacuum_count))
    FROM pg_stat_user_tables AS t
)
SELECT s.source, c.key AS counter, (c.value #>> '{{}}')::float8 AS value
FROM sources AS s, jsonb_each(s.counters) AS c
WHERE jsonb_typeof(c.value) = 'number' AND c.key NOT IN ('datid', 'numbackends')
"""
_CHECKPOINTER: Final = "SELECT 'checkpointer', to_jsonb(p) FROM pg_stat_checkpointer AS p UNION ALL"
_CHECKPOINTER_SINCE: Final = 17
_TABLES: Final = """
SELECT relname AS table_name, n_live_tup AS live_rows, n_dead_tup AS dead_rows, n_tup_ins AS inserted,
       n_tup_upd AS updated, n_tup_del AS deleted, autovacuum_count AS autovacuums,
       pg_total_relation_size(relid) AS bytes
FROM pg_stat_user_tables WHERE schemaname = 'telesto' ORDER BY relname
"""
_WAITS: Final = """
SELECT coalesce(backend_type, '') AS backend_type, coalesce(state, '') AS state,
       coalesce(wait_event_type, '') AS wait_event_type, coalesce(wait_event, '') AS wait_event,
       count(*) AS backends
FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
GROUP BY 1, 2, 3, 4
"""


class Sampler:
    """Samples the tiers during one run and writes the samples into tables.

    Attributes:
        tiers: the rows of the table of tiers, which are few.
    """

    def __init__(
        self,
        database: Database,
        middlewares: Middlewares,
        generators: Sequence[int],
        tables: Tables,
        wait_samples_per_s: float,
        on_second: Callable[[float], None] = lambda second: None,
    ) -> None:
        self._database = database
        self._middlewares = middlewares
        self._generators = generators
        self._wait_samples_per_s = wait_samples_per_s
        self._on_second = on_second
        self._phases_seen = [0] * len(middlewares.admin_ports)
        self._tables = tables
        self.tiers: list[Row] = []

    async def run(self, begin: float, end: float) -> None:
        """Sample from one moment of the monotonic clock to another."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sample_seconds(begin, end))
            if self._wait_samples_per_s:
                group.create_task(self._sample_waits(begin, end))

    async def sample_once_more(self, begin: float) -> None:
        """Sample what happened since the last sample of `run`; the middlewares still run."""
        async with connected(self._database.url) as connection:
            await self._sample_counters(connection, begin)
        await self._sample_middlewares(begin)

    async def state_of_tables(self) -> list[dict[str, object]]:
        """Return the state of Telesto's tables."""
        async with connected(self._database.url) as connection:
            return [dict(row) for row in await connection.fetch(_TABLES)]

    async def _sample_seconds(self, begin: float, end: float) -> None:
        async with connected(self._database.url) as connection:
            moment = begin
            while True:
                await asyncio.sleep(max(0.0, moment - time.monotonic()))
                self._sample_tiers(begin)
                await self._sample_counters(connection, begin)
                await self._sample_middlewares(begin)
                self._on_second(time.monotonic() - begin)
                if moment >= end:
                    break
                # After a sample that took longer than the period, the next one waits too.
                moment = min(max(moment + PERIOD_S, time.monotonic()), end)

    async def _sample_waits(self, begin: float, end: float) -> None:
        async with connected(self._database.url) as connection:
            moment = begin
            while moment <= end:
                await asyncio.sleep(max(0.0, moment - time.monotonic()))
                since = time.monotonic() - begin
                self._tables.add("waits", [(since, *row) for row in await connection.fetch(_WAITS)])
                moment = max(moment + 1 / self._wait_samples_per_s, time.monotonic())

    def _sample_tiers(self, begin: float) -> None:
        since = time.monotonic() - begin
        rows: list[Row] = []
        for tier, pids in (
            ("client", self._generators),
            ("middleware", self._middlewares.pids),
            ("harness", [os.getpid()]),
        ):
            for number, pid in enumerate(pids, start=1):
                memory = private_bytes(pid) + shared_bytes(pid)
                rows.append((since, tier, number, cpu_seconds([pid]), memory))
        root = self._database.postmaster
        pids = [root, *children(root)]
        memory = sum(map(private_bytes, pids)) + max(map(shared_bytes, pids))
        rows.append((since, "postgres", 1, tree_cpu_seconds(root), memory))
        self._tables.add("tiers", rows)
        self.tiers += rows

    async def _sample_counters(self, connection: asyncpg.Connection, begin: float) -> None:
        since = time.monotonic() - begin
        newer = connection.get_server_version().major >= _CHECKPOINTER_SINCE
        query = _COUNTERS.format(checkpointer=_CHECKPOINTER if newer else "")
        self._tables.add("counters", [(since, *row) for row in await connection.fetch(query)])

    async def _sample_middlewares(self, begin: float) -> None:
        for index, port in enumerate(self._middlewares.admin_ports):
            text = await ask_admin(port, "/metrics")
            since = time.monotonic() - begin
            self._tables.add("metrics", [(since, index + 1, *each) for each in metrics_in(text)])
            await self._collect_phases(index, port, begin)

    async def _collect_phases(self, index: int, port: int, begin: float) -> None:
        text = await ask_admin(port, f"/phases?after={self._phases_seen[index]}")
        rows: list[Row] = []
        for number, received_at, *rest in phases_in(text):
            self._phases_seen[index] = number
            rows.append((received_at - begin, index + 1, number, *rest))
        self._tables.add("phases", rows)


async def ask_admin(port: int, path: str) -> str:
    """Ask a middleware's admin server on this machine; return an empty text if it does not answer."""
    try:
        async with asyncio.timeout(ADMIN_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
                answer = (await reader.read()).decode()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""
    head, _, body = answer.partition("\r\n\r\n")
    return body if " 200 " in head.partition("\r\n")[0] else ""


def metrics_in(text: str) -> list[tuple[str, str, float]]:
    """Return the metrics in an answer: name, label or nothing, value."""
    return [
        (sample.name, next(iter(sample.labels.values()), ""), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("telesto_") and not sample.name.endswith("_created")
    ]


_PHASE: Final = {
    **{"number": int, "received_at": float, "kind": str, "tries": int},
    **dict.fromkeys(("client_us", "parse_us", "fifo_us", "database_us", "parked_us", "answer_us"), float),
    **{"batch": int, "together": int},
}
"""The fields of a timed request, in the order of the columns of its table."""


def phases_in(text: str) -> list[tuple[Any, ...]]:
    """Return the timed requests in an answer."""
    rows = csv.DictReader(io.StringIO(text))
    return [tuple(kind(row[name]) for name, kind in _PHASE.items()) for row in rows]
