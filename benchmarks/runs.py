"""One measurement: an empty queue, a load, the CPU seconds of each tier, the audit, clean tables."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from array import array
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import asyncpg
from telesto.benchmarks import ceiling
from telesto.benchmarks.audit import Audit, Claims, audit_queue
from telesto.benchmarks.ceiling import CeilingPlan
from telesto.benchmarks.load import LoadPlan
from telesto.benchmarks.records import Record, Window, completed, latencies, percentile, series
from telesto.benchmarks.service import Database, Middlewares
from telesto.benchmarks.tally import Tally, Workload, load_tally
from telesto.benchmarks.usage import cpu_seconds
from telesto.benchmarks.worker import Result, Worker

CEILING_BATCH: Final = 256
HEAD_START_S: Final = 0.2
"""How long before the beginning the workers are told of it."""
TAIL_S: Final = 0.3
STREAMS_PER_WORKER: Final = 1 << 16
BACKLOG_STREAM: Final = 1 << 31
BACKLOG_PRIORITY: Final = 1
FILL_BATCH: Final = 2_000

_HOT_TABLES: Final = "telesto.messages, telesto.deliveries, telesto.operations"
_CREATE_QUEUE: Final = (
    "SELECT queue_id FROM telesto.create_queue_numbered($1, $2, 1, '{}'::bigint[], '{}'::bigint[], $3, NULL)"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a load is made up: connections, and requests in flight on each."""

    connections: int
    in_flight: int = 1

    def __str__(self) -> str:
        return str(self.connections) if self.in_flight == 1 else f"{self.connections} x {self.in_flight}"


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a run takes: what does not count, then what does. Seconds.

    The load goes on for a moment after the measured part, for the CPU seconds of a process that is just
    ending can be missed: it is no longer there, and its parent has not got them yet.
    """

    warm_up_s: float
    measured_s: float

    @property
    def total_s(self) -> float:
        """Length of the run."""
        return self.warm_up_s + self.measured_s + TAIL_S


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a load meets: messages waiting in another priority, a session with an old snapshot."""

    backlog: int = 0
    old_snapshot: bool = False


NO_CONDITIONS: Final = Conditions()


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies of one kind of request, in seconds; 0 where there was none."""

    median_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run gave. A message counts when it was put, with `put-read` when it was taken."""

    per_second: float
    series: list[int]
    put: Latency
    take: Latency
    cpu_us: dict[str, float]
    """Microseconds of CPU per message, by tier."""
    audit: Audit
    errors: dict[str, int]


@dataclass(slots=True)
class Bench:
    """Runs measurements on one database, one after the other."""

    database: Database
    connection: asyncpg.Connection
    directory: Path
    generators: int = 2
    body_bytes: int = 200

    async def service(
        self,
        middlewares: Middlewares,
        shape: Shape,
        workload: Workload,
        timing: Timing,
        conditions: Conditions = NO_CONDITIONS,
    ) -> Measurement:
        """Load middlewares through the client library."""
        async with self.queue() as queue_id:
            claims = Claims(acknowledged=await self.fill(queue_id, conditions.backlog))
            plan = LoadPlan(
                middlewares.urls,
                queue_id,
                workload,
                0,
                shape.in_flight,
                timing.total_s,
                str(self.directory),
                0,
            )
            plans = split_load(replace(plan, body_bytes=self.body_bytes), shape.connections, self.generators)
            workers = [await Worker.spawn("telesto.benchmarks.load", each.as_plan()) for each in plans]
            # Inside, because emptying the tables afterwards waits for whoever has read them.
            async with old_snapshot(self.database.url) if conditions.old_snapshot else nullcontext():
                return await self._run(workers, queue_id, claims, workload, timing, middlewares)

    async def ceiling(self, clients: int, batch: int, workload: Workload, timing: Timing) -> Measurement:
        """Call the procedures without the service, for so many clients in turn."""
        async with self.queue() as queue_id:
            plan = self._ceiling_plan(queue_id, workload, clients, batch, timing.total_s)
            worker = await Worker.spawn("telesto.benchmarks.ceiling", plan.as_plan())
            return await self._run([worker], queue_id, Claims(), workload, timing, Middlewares())

    async def _run(
        self,
        workers: Sequence[Worker],
        queue_id: int,
        claims: Claims,
        workload: Workload,
        timing: Timing,
        middlewares: Middlewares,
    ) -> Measurement:
        """Let the workers go, sample the tiers, collect, audit."""
        tiers: dict[str, Callable[[], float]] = {
            "client": lambda: cpu_seconds(worker.pid for worker in workers),
            "middleware": middlewares.cpu_seconds,
            "postgres": self.database.cpu_seconds,
        }
        window, used, results = await drive(workers, timing, tiers)
        tally = Tally()
        for result in results:
            load_tally(result, tally)
        claims.acknowledged.extend(tally.puts.identities)
        claims.doubtful.extend(tally.doubtful)
        claims.read.extend(tally.takes.identities)
        audit = await audit_queue(self.connection, queue_id, claims)
        return summarise(tally, workload, window, used, audit)

    @asynccontextmanager
    async def queue(self) -> AsyncIterator[int]:
        """Create a queue; afterwards empty the tables, so that every run finds them alike."""
        name = f"bench-{next(_queue_numbers)}-{os.getpid()}"
        client = await self.connection.fetchrow(ceiling.REGISTER, name, ceiling.FULL_MODE, os.urandom(16))
        assert client is not None
        queue_id = await self.connection.fetchval(_CREATE_QUEUE, client["client_id"], client["session"], name)
        await self.connection.execute("CHECKPOINT")
        try:
            yield queue_id
        finally:
            await self.connection.execute(f"TRUNCATE {_HOT_TABLES}")

    async def fill(self, queue_id: int, messages: int) -> array[int]:
        """Put a backlog into the queue, in the lowest priority; return its identities."""
        if not messages:
            return array("Q")
        plan = self._ceiling_plan(queue_id, "put", 1, FILL_BATCH, 0.0)
        plan = replace(plan, stream=BACKLOG_STREAM, priority=BACKLOG_PRIORITY)
        return await ceiling.fill(self.connection, queue_id, messages, plan)

    def _ceiling_plan(
        self, queue_id: int, workload: Workload, clients: int, batch: int, seconds: float
    ) -> CeilingPlan:
        names = f"ceiling-{queue_id}-{os.getpid()}"
        directory = str(self.directory)
        plan = CeilingPlan(self.database.url, queue_id, workload, clients, batch, seconds, directory, names)
        return replace(plan, body_bytes=self.body_bytes)


_queue_numbers = itertools.count(1)


def split_load(plan: LoadPlan, connections: int, generators: int) -> list[LoadPlan]:
    """Spread connections over generators as evenly as they go; each generator has streams of its own."""
    count = min(generators, connections)
    shares = [connections // count + (index < connections % count) for index in range(count)]
    return [
        replace(plan, connections=share, first_stream=index * STREAMS_PER_WORKER)
        for index, share in enumerate(shares)
    ]


async def drive(
    workers: Sequence[Worker], timing: Timing, tiers: Mapping[str, Callable[[], float]]
) -> tuple[Window, dict[str, float], list[Result]]:
    """Run workers together; return the measured window, the CPU seconds of each tier in it, the results."""
    try:
        await asyncio.gather(*(worker.ready() for worker in workers))
        moment = time.monotonic() + HEAD_START_S
        window = Window(moment + timing.warm_up_s, moment + timing.warm_up_s + timing.measured_s)
        for worker in workers:
            await worker.begin(moment)
        await _sleep_until(window.begin)
        before = {tier: used() for tier, used in tiers.items()}
        await _sleep_until(window.end)
        used = {tier: seconds() - before[tier] for tier, seconds in tiers.items()}
        results = await asyncio.gather(*(worker.result(timing.total_s) for worker in workers))
    finally:
        for worker in workers:
            await worker.stop()
    return window, used, list(results)


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


def summarise(
    tally: Tally, workload: Workload, window: Window, used: Mapping[str, float], audit: Audit
) -> Measurement:
    """Turn the records of a run into its figures."""
    counted = tally.puts if workload == "put" else tally.takes
    messages = completed(counted, window)
    return Measurement(
        per_second=messages / window.seconds,
        series=series(counted, window),
        put=_latency(tally.puts, window),
        take=_latency(tally.takes, window),
        cpu_us={tier: 1e6 * seconds / max(1, messages) for tier, seconds in used.items()},
        audit=audit,
        errors=dict(tally.errors),
    )


def _latency(record: Record, window: Window) -> Latency:
    ordered = latencies(record, window)
    return Latency(percentile(ordered, 0.5), percentile(ordered, 0.99))


@asynccontextmanager
async def old_snapshot(database_url: str) -> AsyncIterator[None]:
    """Hold a REPEATABLE READ snapshot that has read every table, as a report or a dump does."""
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'telesto'")
            for row in tables:
                await connection.fetchval(f'SELECT count(*) FROM telesto."{row["tablename"]}"')
            yield
    finally:
        await connection.close()
