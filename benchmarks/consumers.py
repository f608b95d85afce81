"""Consumers: how fast they take and acknowledge what waits or comes, keyed or not, and the delay at rest."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

import asyncpg

from telesto.benchmarks import ceiling
from telesto.benchmarks.consumer_load import MOMENT, ConsumerPlan
from telesto.benchmarks.load_runs import (
    LoadRun,
    LoadRuns,
    all_wrong,
    cpu_for_each,
    delays_within,
    rates,
)
from telesto.benchmarks.measurement import Timing
from telesto.benchmarks.records import Window
from telesto.benchmarks.runs import drive, old_snapshot, tiers_of
from telesto.benchmarks.service import Database, Middlewares
from telesto.benchmarks.worker import Result, Worker

FEW, MANY = 1, 8
KEYS: Final = 1_000
PRODUCERS: Final = 8
IN_FLIGHT: Final = 64
PACE_S: Final = 0.02
FILL_BATCH: Final = 2_000

_CREATE_QUEUE: Final = "SELECT queue_id FROM telesto.create_queue_numbered($1, $2, 1, '{}', '{}', $3, '{}')"
_FILL: Final = """
SELECT errors FROM telesto.put_batch(
    ARRAY[$1::bigint], ARRAY[$2::bigint], '{0}', '{49}', array_fill(1, ARRAY[$4::int]),
    array_fill($3::bigint, ARRAY[$4]), array_fill(0::bigint, ARRAY[$4]),
    array_fill(5::smallint, ARRAY[$4]), array_fill(NULL::bigint, ARRAY[$4]),
    array_fill($5::bytea, ARRAY[$4]), '{}', '{}', '{}', partition_keys => $6::text[])
"""
_WAITING: Final = """
SELECT (SELECT count(*) FROM telesto.messages WHERE queue_id = $1)
     + (SELECT count(*) FROM telesto.keyed_messages WHERE queue_id = $1)
     + (SELECT count(*) FROM telesto.leases WHERE queue_id = $1)
"""
_EMPTY: Final = (
    "TRUNCATE telesto.messages, telesto.keyed_messages, telesto.partition_arrivals, telesto.partitions,"
    " telesto.leases, telesto.operations, telesto.history"
)
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a load is made of.

    Attributes:
        backlog: messages that wait when it begins.
        producers: how many put meanwhile, each with IN_FLIGHT puts at a time.
    """

    consumers: int
    backlog: int = 0
    keys: int = 0
    producers: int = 0
    old_snapshot: bool = False


@dataclass(slots=True)
class ConsumerRun(LoadRun):
    """One run.

    Attributes:
        puts, acks: per second.
        delays: from a put to its delivery, in seconds; only of paced runs.
        cpu_us: microseconds of CPU per acknowledged message, of each tier.
        wrong: what an audit found: messages lost or acknowledged twice, partitions out of order, a backlog
            that was used up, which makes the rate mean nothing.
    """

    puts: float
    acks: float
    delays: list[float]
    cpu_us: dict[str, float]
    wrong: list[str]


@dataclass(slots=True)
class ConsumerRuns(LoadRuns):
    """All runs; the lists are parallel, one element for each repetition."""

    one: list[ConsumerRun] = field(default_factory=list)
    many: list[ConsumerRun] = field(default_factory=list)
    one_keyed: list[ConsumerRun] = field(default_factory=list)
    many_keyed: list[ConsumerRun] = field(default_factory=list)
    many_snapshot: list[ConsumerRun] = field(default_factory=list)
    many_keyed_snapshot: list[ConsumerRun] = field(default_factory=list)
    stream: list[ConsumerRun] = field(default_factory=list)
    stream_keyed: list[ConsumerRun] = field(default_factory=list)
    stream_backlog: list[ConsumerRun] = field(default_factory=list)
    rest: list[ConsumerRun] = field(default_factory=list)


class ConsumerBench:
    """Runs the loads one after the other, each on a queue of its own."""

    def __init__(self, database: Database, connection: asyncpg.Connection, body_bytes: int) -> None:
        self._database = database
        self._connection = connection
        self._body_bytes = body_bytes

    async def consume(self, middlewares: Middlewares, shape: Shape, timing: Timing) -> ConsumerRun:
        """Consumers take what waits and what producers put meanwhile."""
        async with self._queue(shape) as queue_id:
            plan = self._plan(middlewares, queue_id, timing)
            plans = [replace(plan, consumers=shape.consumers)]
            if shape.producers:
                producing = replace(plan, producers=shape.producers, in_flight=IN_FLIGHT, keys=shape.keys)
                plans.append(producing)
            held = old_snapshot(self._database.url) if shape.old_snapshot else nullcontext()
            async with held:
                return await self._run(plans, queue_id, shape, middlewares, timing)

    async def rest(self, middlewares: Middlewares, timing: Timing) -> ConsumerRun:
        """One message at a time for one consumer."""
        shape = Shape(consumers=1, producers=1)
        async with self._queue(shape) as queue_id:
            plan = replace(self._plan(middlewares, queue_id, timing), pace_s=PACE_S)
            plans = [replace(plan, producers=1), replace(plan, consumers=1)]
            return await self._run(plans, queue_id, shape, middlewares, timing)

    def _plan(self, middlewares: Middlewares, queue_id: int, timing: Timing) -> ConsumerPlan:
        return ConsumerPlan(middlewares.urls, queue_id, timing.total_s, body_bytes=self._body_bytes)

    @asynccontextmanager
    async def _queue(self, shape: Shape) -> AsyncIterator[int]:
        """Makes a queue with a backlog; empties the tables at the end, so that every run finds them alike."""
        name = f"bench-consumers-{next(_numbers)}-{os.getpid()}"
        client = await self._connection.fetchrow(ceiling.REGISTER, name, ceiling.FULL_MODE, os.urandom(16))
        assert client is not None
        identity = client["client_id"], client["session"]
        queue_id = await self._connection.fetchval(_CREATE_QUEUE, *identity, name)
        await self._fill(identity, queue_id, shape)
        await self._connection.execute("CHECKPOINT")
        try:
            yield queue_id
        finally:
            await self._connection.execute(_EMPTY)

    async def _fill(self, identity: tuple[int, int], queue_id: int, shape: Shape) -> None:
        body = MOMENT.pack(0.0) + bytes(max(0, self._body_bytes - MOMENT.size))
        for begin in range(0, shape.backlog, FILL_BATCH):
            count = min(FILL_BATCH, shape.backlog - begin)
            keys = [f"key-{(begin + i) % shape.keys}" for i in range(count)] if shape.keys else None
            errors = await self._connection.fetchval(_FILL, *identity, queue_id, count, body, keys)
            assert errors is None

    async def _run(
        self,
        plans: Sequence[ConsumerPlan],
        queue_id: int,
        shape: Shape,
        middlewares: Middlewares,
        timing: Timing,
    ) -> ConsumerRun:
        workers = [await Worker.spawn("telesto.benchmarks.consumer_load", plan.as_plan()) for plan in plans]
        tiers = tiers_of(workers, middlewares, self._database)
        window, usage, results = await drive(workers, timing, tiers)
        run = _summarise(results, timing, window, {tier: sum(used) for tier, used in usage.items()})
        run.wrong.extend(await self._audit(queue_id, shape, results))
        return run

    async def _audit(self, queue_id: int, shape: Shape, results: Sequence[Result]) -> list[str]:
        put = shape.backlog + sum(result["put"] for result in results)
        acked = sum(result["acked"] for result in results)
        waiting = await self._connection.fetchval(_WAITING, queue_id)
        wrong = []
        if acked + waiting != put:
            wrong.append(f"{put} put, {acked} acknowledged, but {waiting} left")
        if shape.backlog and not waiting and not shape.producers:
            wrong.append("the backlog was used up")
        return wrong


async def measure_consumers(
    bench: ConsumerBench,
    middlewares: Middlewares,
    timing: Timing,
    backlog: int,
    large_backlog: int,
    repetitions: int,
    progress: Callable[[str], None],
) -> ConsumerRuns:
    """Run everything so often; `backlog` must outlast a run."""
    shapes = {
        "one": Shape(FEW, backlog),
        "many": Shape(MANY, backlog),
        "one_keyed": Shape(FEW, backlog, KEYS),
        "many_keyed": Shape(MANY, backlog, KEYS),
        "many_snapshot": Shape(MANY, backlog, old_snapshot=True),
        "many_keyed_snapshot": Shape(MANY, backlog, KEYS, old_snapshot=True),
        "stream": Shape(MANY, producers=PRODUCERS),
        "stream_keyed": Shape(MANY, keys=KEYS, producers=PRODUCERS),
        "stream_backlog": Shape(MANY, large_backlog, producers=PRODUCERS),
    }
    runs = ConsumerRuns()
    for repetition in range(1, repetitions + 1):
        for name, shape in shapes.items():
            progress(f"consumers: repetition {repetition} of {repetitions}: {name}")
            runs.named[name].append(await bench.consume(middlewares, shape, timing))
        runs.rest.append(await bench.rest(middlewares, timing))
    return runs


def _summarise(
    results: Sequence[Result], timing: Timing, window: Window, usage: dict[str, float]
) -> ConsumerRun:
    puts, acks = rates(results, timing, "puts", "acks")
    cpu = cpu_for_each(usage, acks * timing.measured_s)
    return ConsumerRun(puts, acks, delays_within(results, window), cpu, all_wrong(results))
