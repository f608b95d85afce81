"""The harness at tiny size against the real tiers: it measures, balances, and notices what is planted."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from telesto.benchmarks.audit import Balance, audit_tally
from telesto.benchmarks.core import run
from telesto.benchmarks.experiment import QUICK_SIZE, Options
from telesto.benchmarks.measurement import Conditions, Shape, Timing
from telesto.benchmarks.report import render
from telesto.benchmarks.runs import Bench
from telesto.benchmarks.sections import SECTIONS
from telesto.benchmarks.service import describe_database, running_middlewares
from telesto.benchmarks.stored import stored_in_queues
from telesto.benchmarks.tally import Tally

DELETE = "DELETE FROM telesto.messages WHERE queue_id = $1 AND substr(body, 1, 8) = $2"
COPY = """
INSERT INTO telesto.messages
SELECT (jsonb_populate_record(m, jsonb_build_object('message_id', m.message_id + 1000000))).*
FROM telesto.messages AS m WHERE queue_id = $1 AND substr(body, 1, 8) = $2
"""

TINY = Timing(warm_up_s=0.1, measured_s=0.4)
HARD = Conditions(backlog=300, old_snapshot=True)


@pytest.fixture
async def bench(database_url: str, tmp_path: Path) -> AsyncIterator[Bench]:
    connection = await asyncpg.connect(database_url)
    try:
        yield Bench(await describe_database(database_url), connection, tmp_path, generators=2)
    finally:
        await connection.close()


async def test_the_service_is_measured_and_balances(bench: Bench) -> None:
    async with running_middlewares(bench.database.url, bench.directory) as middlewares:
        put = await bench.service(middlewares, Shape(4), "put", TINY)
        both = await bench.service(
            middlewares, Shape(3, 2), "put-read", TINY, Conditions(300, old_snapshot=True)
        )
    for run_ in (put, both):
        assert run_.per_second > 0
        assert run_.audit.clean
        assert run_.errors == {}
        assert run_.cpu_us["middleware"] > 0
    assert put.audit.left == put.audit.put
    assert (both.audit.left, both.audit.put) == (300, both.audit.handed_over + 300)


@pytest.mark.parametrize("batch", [1, 16])
async def test_the_ceiling_is_measured_and_balances(bench: Bench, batch: int) -> None:
    put = await bench.ceiling(4, batch, "put", TINY)
    both = await bench.ceiling(4, batch, "put-read", TINY)
    for run_ in (put, both):
        assert run_.per_second > 0
        assert run_.audit.clean
        assert run_.cpu_us["postgres"] > 0
    assert both.audit.put == both.audit.handed_over


async def test_the_audit_finds_a_planted_loss_duplicate_and_stranger(bench: Bench) -> None:
    async with bench.making_queues() as queue_ids:
        identities = await bench.fill(queue_ids, 10)

        async def audit(acknowledged: Sequence[int]) -> Balance:
            tally = Tally()
            tally.puts.add_batch(acknowledged, 0.0, 1.0)
            return audit_tally(tally, await stored_in_queues(bench.connection, queue_ids))

        assert (await audit(identities)).clean
        assert (await audit(identities[:-1])).foreign == 1

        await bench.connection.execute(COPY, queue_ids[0], identities[3].to_bytes(8))
        await bench.connection.execute(DELETE, queue_ids[0], identities[7].to_bytes(8))
        found = await audit(identities)
    assert (found.lost, found.duplicated, found.foreign) == (1, 1, 0)
    assert found.examples == (identities[7], identities[3])


async def test_the_experiment_runs_from_beginning_to_end(data_dir: Path) -> None:
    size = replace(QUICK_SIZE, seconds=0.3, warm_up_s=0.1, steady_s=1.5, backlog=500, idle_connections=20)
    shapes = (Shape(1), Shape(3, 2))
    report = await run(Options(size, shapes, tuple(SECTIONS)[1:], queues=2, directory=data_dir.parent))
    text = render(report)
    for expected in ("Durable exactly-once put plus read", "Idle connections: 20", "Targets"):
        assert expected in text
    assert [part.name for part in report.parts] == list(SECTIONS)[1:]
    assert report.targets[-1].reached, text
