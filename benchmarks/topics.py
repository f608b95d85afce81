"""Topics: what a put costs with few and many subscribers, how fast subscribers fetch, fan-out, delays."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import asyncpg

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
from telesto.benchmarks.runs import drive, tiers_of
from telesto.benchmarks.service import Database, Middlewares
from telesto.benchmarks.topic_load import TopicPlan
from telesto.benchmarks.worker import Result, Worker

PUBLISHERS: Final = 8
IN_FLIGHT: Final = 64
FEW, MANY = 1, 20
FETCHERS: Final = 256
AHEAD: Final = 100
PACE_S: Final = 0.02
FILL_BATCH: Final = 500

_REGISTER: Final = "SELECT client_id, session FROM telesto.register_client($1, 1::smallint, $2)"
_SUBSCRIBE: Final = (
    "SELECT error FROM telesto.subscribe_numbered($1, $2, 0, '{}', '{}', $3, NULL, NULL, false)"
)
_PUBLISH: Final = (
    "SELECT errors FROM telesto.publish_batch(ARRAY[$1::bigint], ARRAY[$2::bigint], '{0}', ARRAY[$3], '{1}',"
    " array_fill(1, ARRAY[cardinality($4::bytea[])]),"
    " array_fill(NULL::bigint, ARRAY[cardinality($4::bytea[])]), $4, '{}', '{}', '{}')"
)
_EMPTY: Final = (
    "TRUNCATE telesto.topic_messages, telesto.subscriptions, telesto.positions, telesto.operations;"
    " UPDATE telesto.topic_states SET subscribers = 0"
)
_numbers = count(1)


@dataclass(slots=True)
class TopicRun(LoadRun):
    """One run.

    Attributes:
        puts, deliveries: per second.
        delays: from a put to its delivery, in seconds; only of paced runs.
        cpu_us: microseconds of CPU per put, or per delivery where there were any, of each tier.
        wrong: gaps and repetitions that a subscriber saw.
    """

    puts: float
    deliveries: float
    delays: list[float]
    cpu_us: dict[str, float]
    wrong: list[str]


@dataclass(slots=True)
class TopicRuns(LoadRuns):
    """All runs; the lists are parallel, one element for each repetition."""

    put_few: list[TopicRun] = field(default_factory=list)
    put_many: list[TopicRun] = field(default_factory=list)
    fetch: list[TopicRun] = field(default_factory=list)
    fan_out: list[TopicRun] = field(default_factory=list)
    same: list[TopicRun] = field(default_factory=list)
    across: list[TopicRun] = field(default_factory=list)


class TopicBench:
    """Runs the loads one after the other, each on a topic and subscribers of its own."""

    def __init__(self, database: Database, connection: asyncpg.Connection, body_bytes: int) -> None:
        self._database = database
        self._connection = connection
        self._body_bytes = body_bytes

    async def put(self, middlewares: Middlewares, subscribers: int, timing: Timing) -> TopicRun:
        """Puts to a topic with so many subscribers, of which none is there."""
        topic, _ = await self._topic(subscribers)
        plan = self._publishers(middlewares, topic, timing, PUBLISHERS)
        return await self._run([plan], middlewares, timing)

    async def fetch(self, middlewares: Middlewares, timing: Timing, backlog: int) -> TopicRun:
        """Many subscribers fetch what is there, one message a get."""
        topic, names = await self._topic(FETCHERS)
        await self._fill(topic, backlog)
        plan = TopicPlan(middlewares.urls, topic, timing.total_s, subscribers=names)
        return await self._run([plan], middlewares, timing)

    async def fan_out(self, middlewares: Middlewares, timing: Timing) -> TopicRun:
        """Publishers put and many subscribers follow."""
        topic, names = await self._topic(MANY)
        following = TopicPlan(middlewares.urls, topic, timing.total_s, subscribers=names, ahead=AHEAD)
        putting = self._publishers(middlewares, topic, timing, 1)
        return await self._run([following, putting], middlewares, timing)

    async def delay(self, putting: str, getting: str, middlewares: Middlewares, timing: Timing) -> TopicRun:
        """One message at a time for one waiting subscriber."""
        topic, names = await self._topic(1)
        plans = [
            TopicPlan([putting], topic, timing.total_s, publishers=1, pace_s=PACE_S),
            TopicPlan([getting], topic, timing.total_s, subscribers=names, pace_s=PACE_S),
        ]
        return await self._run(plans, middlewares, timing)

    def _publishers(self, middlewares: Middlewares, topic: str, timing: Timing, publishers: int) -> TopicPlan:
        return TopicPlan(
            middlewares.urls,
            topic,
            timing.total_s,
            publishers=publishers,
            in_flight=IN_FLIGHT,
            body_bytes=self._body_bytes,
        )

    async def _topic(self, subscribers: int) -> tuple[str, tuple[str, ...]]:
        await self._connection.execute(_EMPTY)
        await self._connection.execute("CHECKPOINT")
        topic = f"bench-{next(_numbers)}-{os.getpid()}"
        names = tuple(f"{topic}-subscriber-{index}" for index in range(subscribers))
        for name in names:
            client = await self._connection.fetchrow(_REGISTER, name, os.urandom(16))
            assert client is not None
            await self._connection.execute(_SUBSCRIBE, client["client_id"], client["session"], topic)
        return topic, names

    async def _fill(self, topic: str, messages: int) -> None:
        client = await self._connection.fetchrow(_REGISTER, f"{topic}-filler", os.urandom(16))
        assert client is not None
        bodies = [bytes(self._body_bytes)] * FILL_BATCH
        for _ in range(0, messages, FILL_BATCH):
            await self._connection.execute(_PUBLISH, client["client_id"], client["session"], topic, bodies)

    async def _run(self, plans: Sequence[TopicPlan], middlewares: Middlewares, timing: Timing) -> TopicRun:
        workers = [await Worker.spawn("telesto.benchmarks.topic_load", plan.as_plan()) for plan in plans]
        tiers = tiers_of(workers, middlewares, self._database)
        window, usage, results = await drive(workers, timing, tiers)
        return _summarise(results, timing, window, {tier: sum(used) for tier, used in usage.items()})


async def measure_topics(
    bench: TopicBench,
    middlewares: Middlewares,
    timing: Timing,
    backlog: int,
    repetitions: int,
    progress: Callable[[str], None],
) -> TopicRuns:
    """Run everything so often; `middlewares` are two, of which most loads use the first."""
    first = Middlewares(middlewares.processes[:1], middlewares.ports[:1])
    here, there = middlewares.urls
    runs = TopicRuns()
    for repetition in range(1, repetitions + 1):
        progress(f"topics: repetition {repetition} of {repetitions}")
        runs.put_few.append(await bench.put(first, FEW, timing))
        runs.put_many.append(await bench.put(first, MANY, timing))
        runs.fetch.append(await bench.fetch(first, timing, backlog))
        runs.fan_out.append(await bench.fan_out(first, timing))
        runs.same.append(await bench.delay(here, here, middlewares, timing))
        runs.across.append(await bench.delay(here, there, middlewares, timing))
    return runs


def _summarise(
    results: Sequence[Result], timing: Timing, window: Window, usage: dict[str, float]
) -> TopicRun:
    puts, deliveries = rates(results, timing, "puts", "deliveries")
    cpu = cpu_for_each(usage, (deliveries or puts) * timing.measured_s)
    return TopicRun(puts, deliveries, delays_within(results, window), cpu, all_wrong(results))
