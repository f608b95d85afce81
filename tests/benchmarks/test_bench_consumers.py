"""The section about consumers: each load does what its row says, losses are noticed, targets are judged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from telesto.benchmarks.consumer_load import OrderWatch
from telesto.benchmarks.consumers import ConsumerBench, ConsumerRun, ConsumerRuns, Shape
from telesto.benchmarks.consumers_part import consumers_part
from telesto.benchmarks.measurement import Timing
from telesto.benchmarks.report import Report, as_plain, render
from telesto.benchmarks.service import describe_database, running_middlewares

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
    bench = ConsumerBench(await describe_database(database_url), connection, body_bytes=20)
    async with running_middlewares(database_url, tmp_path, 1) as middlewares:
        drained = await bench.consume(middlewares, Shape(2, 40_000), TINY)
        streamed = await bench.consume(middlewares, Shape(2, 60, keys=6, producers=1), TINY)
        snapshot = await bench.consume(middlewares, Shape(1, 20_000, keys=5, old_snapshot=True), TINY)
        rest = await bench.rest(middlewares, TINY)
    assert drained.acks > 0 == drained.puts
    assert streamed.puts > 0 < streamed.acks
    assert snapshot.acks > 0 == snapshot.puts
    assert rest.acks > 0 < rest.median_ms
    for run in (drained, streamed, snapshot, rest):
        assert set(run.wrong) <= {"the backlog was used up"}, "which a quick machine may do"
    assert all(streamed.cpu_us[tier] > 0 for tier in ("middleware", "postgres"))
    assert await connection.fetchval("SELECT count(*) FROM telesto.messages") == 0


@pytest.mark.parametrize(
    ("put", "acked", "waiting", "wrong"),
    [
        (5, 12, 3, []),
        (5, 12, 2, ["15 put, 12 acknowledged, but 2 left"]),
        (5, 13, 3, ["15 put, 13 acknowledged, but 3 left"]),
        (0, 10, 0, ["the backlog was used up"]),
    ],
)
async def test_what_is_lost_or_doubled_is_noticed(
    put: int, acked: int, waiting: int, wrong: list[str]
) -> None:
    class Connection:
        async def fetchval(self, *_: object) -> int:
            return waiting

    bench = ConsumerBench(None, Connection(), 20)  # type: ignore[arg-type]
    shape = Shape(1, backlog=10, producers=1 if put else 0)
    results = [{"put": put, "acked": 4}, {"put": 0, "acked": acked - 4}]
    assert await bench._audit(1, shape, results) == wrong


def a_message(message_id: int, key: str | None = "k", redelivered: bool = False) -> Any:
    return SimpleNamespace(message_id=message_id, partition_key=key, sender_id=1, redelivered=redelivered)


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([a_message(5), a_message(6), a_message(2, "other")], []),
        ([a_message(5), a_message(4)], ["partition k: 4 after 5"]),
        ([a_message(5), a_message(5)], ["partition k: 5 after 5"]),
        ([a_message(5), a_message(4, redelivered=True)], []),
        ([a_message(5, None), a_message(4, None)], []),
    ],
)
def test_disorder_in_a_partition_is_noticed(messages: list[Any], wrong: list[str]) -> None:
    watch = OrderWatch()
    for message in messages:
        watch.see(message)
    assert watch.wrong == wrong


def a_run(puts: float = 100.0, acks: float = 30_000.0, delay_s: float = 0.001) -> ConsumerRun:
    return ConsumerRun(puts, acks, [delay_s] * 3, dict(CPU), [])


def runs(**different: ConsumerRun) -> ConsumerRuns:
    return ConsumerRuns(**{name: [different.get(name, a_run())] * 3 for name in ConsumerRuns().named})


def test_every_load_has_its_row_and_target() -> None:
    part = consumers_part(runs())
    text = render(Report({}, {}, [part]))
    for expected in (
        *("1 consumer", "8 consumers", "over 1,000 keys", "an old snapshot", "8 x 64 puts"),
        *("the large backlog", "one at a time", "30,000", "1.00 ms"),
    ):
        assert expected in text, expected
    assert all(target.reached for target in part.targets)
    plain = as_plain(Report({}, {}, [part]))
    assert plain["consumers"]["rest"][0]["delays"] == 3, "how many delays there were, not each of them"


@pytest.mark.parametrize(
    ("different", "missed"),
    [
        ({"one": a_run(acks=14_999)}, "1 consumer without keys, acknowledged per second"),
        ({"one_keyed": a_run(acks=9_999)}, "1 consumer over 1,000 keys, acknowledged per second"),
        ({"many_keyed_snapshot": a_run(acks=23_000)}, "an old snapshot held against none, keyed"),
        ({"stream_backlog": a_run(acks=23_000)}, "consuming: the large backlog against an empty queue"),
        ({"rest": a_run(delay_s=0.006)}, "median from put to delivery at rest"),
        (
            {"stream": replace(a_run(), wrong=["2 left"])},
            "every message acknowledged once, every partition in order",
        ),
    ],
)
def test_missed_targets_are_said(different: dict[str, ConsumerRun], missed: str) -> None:
    targets = consumers_part(runs(**different)).targets
    assert [target.what for target in targets if not target.reached] == [missed]
