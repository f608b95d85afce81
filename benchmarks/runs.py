"""One measurement: an empty queue, a load, the CPU seconds of each tier, the audit, clean tables."""

from __future__ import annotations

import asyncio
import json
import os
import time
from array import array
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Final

import asyncpg

from telesto.benchmarks import ceiling
from telesto.benchmarks.audit import audit_tally
from telesto.benchmarks.bodies import BACKLOG_STREAM
from telesto.benchmarks.ceiling import CeilingPlan
from telesto.benchmarks.load import LoadPlan
from telesto.benchmarks.measurement import (
    NO_CONDITIONS,
    Conditions,
    History,
    Measurement,
    Shape,
    Timing,
    summarise,
)
from telesto.benchmarks.records import Window
from telesto.benchmarks.service import Database, Middlewares
from telesto.benchmarks.stored import stored_in_queues
from telesto.benchmarks.tally import Tally, Workload, load_tally
from telesto.benchmarks.usage import cpu_seconds
from telesto.benchmarks.worker import Result, Worker

CEILING_BATCH: Final = 256
HEAD_START_S: Final = 0.2
"""How long before the beginning the workers are told of it."""
STREAMS_PER_WORKER: Final = 1 << 16
BACKLOG_PRIORITY: Final = 1
FILL_BATCH: Final = 2_000

_HOT_TABLES: Final = "telesto.messages, telesto.deliveries, telesto.operations, telesto.history"
_CREATE_QUEUE: Final = (
    "SELECT queue_id FROM telesto.create_queue_numbered($1, $2, $3, '{}'::bigint[], '{}'::bigint[], $4, $5)"
)


@dataclass(slots=True)
class Bench:
    """Runs measurements on one database, one after the other."""

    database: Database
    connection: asyncpg.Connection
    directory: Path
    generators: int = 2
    queues: int = 1
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
        async with self.making_queues(conditions.history) as queue_ids:
            backlog = await self.fill(queue_ids, conditions.backlog)
            plan = LoadPlan(
                urls=middlewares.urls,
                queue_ids=queue_ids,
                workload=workload,
                connections=shape.connections,
                in_flight=shape.in_flight,
                seconds=timing.total_s,
                directory=str(self.directory),
                body_bytes=self.body_bytes,
                delivery=conditions.delivery,
                blocking=conditions.blocking,
                state=conditions.state,
            )
            plans = split_load(plan, self.generators)
            workers = [await Worker.spawn("telesto.benchmarks.load", each.as_plan()) for each in plans]
            async with self._snapshot(conditions):
                return await self._run(workers, queue_ids, backlog, workload, timing, middlewares)

    async def ceiling(
        self,
        clients: int,
        batch: int,
        workload: Workload,
        timing: Timing,
        conditions: Conditions = NO_CONDITIONS,
    ) -> Measurement:
        """Call the procedures without the service, for so many clients in turn."""
        async with self.making_queues(conditions.history) as queue_ids:
            plan = self._ceiling_plan(queue_ids, workload, clients, batch, timing.total_s)
            worker = await Worker.spawn("telesto.benchmarks.ceiling", plan.as_plan())
            async with self._snapshot(conditions):
                return await self._run([worker], queue_ids, (), workload, timing, Middlewares())

    def _snapshot(self, conditions: Conditions) -> AbstractAsyncContextManager[None]:
        """Hold an old snapshot if that is wanted.

        To be used inside of making_queues, which empties the tables at its end and waits for whoever has read
        them.
        """
        return old_snapshot(self.database.url) if conditions.old_snapshot else nullcontext()

    async def _run(
        self,
        workers: Sequence[Worker],
        queue_ids: Sequence[int],
        backlog: Sequence[int],
        workload: Workload,
        timing: Timing,
        middlewares: Middlewares,
    ) -> Measurement:
        """Let the workers go, sample the tiers, collect, audit."""
        window, usage, results = await drive(workers, timing, tiers_of(workers, middlewares, self.database))
        tally = Tally()
        for result in results:
            load_tally(result, tally)
        balance = audit_tally(tally, await stored_in_queues(self.connection, queue_ids), backlog)
        return summarise(tally, workload, window, usage, balance)

    @asynccontextmanager
    async def making_queues(self, history: History = NO_CONDITIONS.history) -> AsyncIterator[list[int]]:
        """Create the queues; afterwards empty the tables, so that every run finds them alike."""
        name = f"bench-{next(_run_numbers)}-{os.getpid()}"
        client = await self.connection.fetchrow(ceiling.REGISTER, name, ceiling.FULL_MODE, os.urandom(16))
        assert client is not None
        identity = client["client_id"], client["session"]
        settings = json.dumps({"history": history})
        queue_ids = [
            await self.connection.fetchval(_CREATE_QUEUE, *identity, number, f"{name}-{number}", settings)
            for number in range(1, self.queues + 1)
        ]
        await self.connection.execute("CHECKPOINT")
        try:
            yield queue_ids
        finally:
            await self.connection.execute(f"TRUNCATE {_HOT_TABLES}")

    async def fill(self, queue_ids: Sequence[int], messages: int) -> array[int]:
        """Put a backlog into the queues, in the lowest priority; return its identities."""
        if not messages:
            return array("Q")
        plan = self._ceiling_plan(queue_ids, "put", 1, FILL_BATCH, 0.0)
        plan = replace(plan, stream=BACKLOG_STREAM, priority=BACKLOG_PRIORITY)
        return await ceiling.fill(self.connection, messages, plan)

    def _ceiling_plan(
        self, queue_ids: Sequence[int], workload: Workload, clients: int, batch: int, seconds: float
    ) -> CeilingPlan:
        return CeilingPlan(
            database_url=self.database.url,
            queue_ids=list(queue_ids),
            workload=workload,
            clients=clients,
            batch=batch,
            seconds=seconds,
            directory=str(self.directory),
            names=f"ceiling-{queue_ids[0]}-{os.getpid()}",
            body_bytes=self.body_bytes,
        )


_run_numbers = count(1)


def split_load(plan: LoadPlan, generators: int) -> list[LoadPlan]:
    """Spread a plan's connections over generators as evenly as they go, each with streams of its own."""
    count = min(generators, plan.connections)
    shares = [plan.connections // count + (index < plan.connections % count) for index in range(count)]
    return [
        replace(plan, connections=share, first_stream=index * STREAMS_PER_WORKER)
        for index, share in enumerate(shares)
    ]


def tiers_of(
    workers: Sequence[Worker], middlewares: Middlewares, database: Database
) -> dict[str, Callable[[], float]]:
    """Return what tells the CPU seconds of each tier so far."""
    return {
        "client": lambda: cpu_seconds(worker.pid for worker in workers),
        "middleware": middlewares.cpu_seconds,
        "postgres": database.cpu_seconds,
    }


async def drive(
    workers: Sequence[Worker], timing: Timing, tiers: Mapping[str, Callable[[], float]]
) -> tuple[Window, dict[str, list[float]], list[Result]]:
    """Run workers together; return the window, each tier's CPU seconds in its thirds, and the results."""
    try:
        await asyncio.gather(*(worker.ready() for worker in workers))
        moment = time.monotonic() + HEAD_START_S
        window = Window(moment + timing.warm_up_s, moment + timing.warm_up_s + timing.measured_s)
        for worker in workers:
            await worker.begin(moment)
        await _sleep_until(window.begin)
        samples = {tier: [used()] for tier, used in tiers.items()}
        for third in window.thirds():
            await _sleep_until(third.end)
            for tier, used in tiers.items():
                samples[tier].append(used())
        results = await asyncio.gather(*(worker.result(timing.total_s) for worker in workers))
    finally:
        for worker in workers:
            await worker.stop()
    usage = {tier: [after - before for before, after in pairwise(used)] for tier, used in samples.items()}
    return window, usage, list(results)


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


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
