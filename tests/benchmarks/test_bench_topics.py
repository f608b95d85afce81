"""The section about topics: each load does what its row says, gaps are noticed, targets are judged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from telesto.benchmarks.measurement import Timing
from telesto.benchmarks.report import Report, as_plain, render
from telesto.benchmarks.service import Middlewares, describe_database, running_middlewares
from telesto.benchmarks.topic_load import TopicPlan, TopicWorker
from telesto.benchmarks.topics import TopicBench, TopicRun, TopicRuns
from telesto.benchmarks.topics_part import topics_part

TINY = Timing(warm_up_s=0.1, measured_s=0.4)
CPU = {"client": 1.0, "middleware": 2.0, "postgres": 3.0}


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_each_load_is_measured(
    connection: asyncpg.Connection, database_url: str, tmp_path: Path
) -> None:
    bench = TopicBench(await describe_database(database_url), connection, body_bytes=20)
    async with running_middlewares(database_url, tmp_path, 2) as middlewares:
        first = Middlewares(middlewares.processes[:1], middlewares.ports[:1])
        here, there = middlewares.urls
        put = await bench.put(first, 2, TINY)
        stored = await connection.fetchrow("SELECT count(*), min(length(body)) FROM telesto.topic_messages")
        followed = await bench.fan_out(first, TINY)
        followers = await connection.fetchval(
            "SELECT count(DISTINCT subscription_id) FROM telesto.positions WHERE position > 0"
        )
        fetched = await bench.fetch(first, TINY, 2_000)
        across = await bench.delay(here, there, middlewares, TINY)
    assert put.puts > 0 == put.deliveries
    assert stored is not None
    assert stored[0] >= put.puts * TINY.measured_s
    assert stored[1] == 20
    assert followed.deliveries > 0 < followed.puts
    assert followers > 1
    assert fetched.deliveries > 0 == fetched.puts
    assert across.deliveries > 0
    assert len(across.delays) > 0
    assert across.median_ms > 0
    for run in (put, followed, fetched, across):
        assert run.wrong == []
        assert all(run.cpu_us[tier] > 0 for tier in ("middleware", "postgres"))


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ([5, 6, 7], []),
        ([5, 7], ["reader: 7 after 5"]),
        ([5, 5], ["reader: 5 after 5"]),
        ([5, 4, 5], ["reader: 4 after 5"]),
    ],
)
async def test_gaps_and_repetitions_are_noticed(numbers: list[int], wrong: list[str]) -> None:
    class Reader:
        name = "reader"

        async def subscription(self, topic: str, **_: float) -> AsyncIterator[Any]:
            for number in numbers:
                yield SimpleNamespace(number=number, body=b"")
            # Nothing more comes: the worker's time is up.
            worker_end.append(True)
            raise EndOfTestError

    worker_end: list[bool] = []
    worker = TopicWorker(TopicPlan([], "t", seconds=60.0))
    with pytest.raises(EndOfTestError):
        await worker._follow(Reader(), float("inf"))  # type: ignore[arg-type]
    assert worker_end
    assert worker._wrong == wrong


class EndOfTestError(Exception):
    """The messages of a test are over."""


def a_run(puts: float = 100.0, deliveries: float = 30_000.0, delay_s: float = 0.001) -> TopicRun:
    return TopicRun(puts, deliveries, [delay_s] * 3, dict(CPU), [])


def runs(**different: TopicRun) -> TopicRuns:
    names = ("put_few", "put_many", "fetch", "fan_out", "same", "across")
    return TopicRuns(**{name: [different.get(name, a_run())] * 3 for name in names})


def test_every_load_has_its_row_and_target() -> None:
    part = topics_part(runs())
    text = render(Report({}, {}, [part]))
    for expected in (
        *("1 subscriber", "20 subscribers", "fetch one at a time", "follow", "to one middleware"),
        *("across two middlewares", "30,000", "1.00 ms"),
    ):
        assert expected in text, expected
    assert len(part.targets) == 5
    assert all(target.reached for target in part.targets)
    plain = as_plain(Report({}, {}, [part]))
    assert plain["topics"]["fan_out"][0]["delays"] == 3, "how many delays there were, not each of them"


@pytest.mark.parametrize(
    ("different", "missed"),
    [
        ({"put_many": a_run(puts=79)}, "put to a topic with 20 subscribers against 1"),
        ({"fan_out": a_run(deliveries=19_999)}, "fan-out to 20 waiting subscribers, deliveries per second"),
        ({"same": a_run(delay_s=0.006)}, "median from put to delivery when idle, one middleware"),
        ({"across": a_run(delay_s=0.006)}, "median from put to delivery when idle, two middlewares"),
        ({"across": replace(a_run(), delays=[])}, "median from put to delivery when idle, two middlewares"),
        (
            {"fetch": replace(a_run(), wrong=["reader: 7 after 5"])},
            "every subscriber: numbers without a gap or repetition",
        ),
    ],
)
def test_missed_targets_are_said(different: dict[str, TopicRun], missed: str) -> None:
    targets = topics_part(runs(**different)).targets
    assert [target.what for target in targets if not target.reached] == [missed]
