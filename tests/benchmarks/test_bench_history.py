"""The section about the history: each run gets the setting that it is about, the part judges the ratios."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from telesto.benchmarks.history import HISTORIES, Histories, histories_part
from telesto.benchmarks.measurement import History
from telesto.benchmarks.report import render
from telesto.benchmarks.runs import Bench
from telesto.benchmarks.service import describe_database
from test_bench_report import CLEAN, Report, measurement

ENDED = "SELECT count(*), count(body) FROM telesto.history"


@pytest.fixture
async def bench(database_url: str, tmp_path: Path) -> AsyncIterator[Bench]:
    connection = await asyncpg.connect(database_url)
    try:
        yield Bench(await describe_database(database_url), connection, tmp_path)
    finally:
        await connection.close()


def histories(metadata: float, *, bare: bool = True, old_snapshot: bool = False) -> Histories:
    rates = {"none": 100.0, "metadata": metadata, "full": 50.0}
    runs = {name: [measurement(rates[name])] * 3 for name in HISTORIES}
    return Histories(bare, old_snapshot, runs)


@pytest.mark.parametrize("history", HISTORIES)
async def test_queues_of_a_run_keep_what_it_is_about(bench: Bench, history: History) -> None:
    async with bench.making_queues(history) as queue_ids:
        kept = await bench.connection.fetchval(
            "SELECT history FROM telesto.queues WHERE queue_id = $1", queue_ids[0]
        )
        assert kept == history
        await bench.fill(queue_ids, 5)
        purge = "SELECT removed FROM telesto.remove_messages($1, 10)"
        assert await bench.connection.fetchval(purge, queue_ids[0]) == 5
        expected = {"none": (0, 0), "metadata": (5, 0), "full": (5, 5)}[history]
        assert tuple(await bench.connection.fetchrow(ENDED)) == expected
    assert tuple(await bench.connection.fetchrow(ENDED)) == (0, 0), "every run finds the tables alike"


def test_every_load_has_its_rows_and_target() -> None:
    found = [histories(95, bare=False), histories(95), histories(89, old_snapshot=True)]
    part = histories_part(found)
    assert [target.reached for target in part.targets] == [True, True, False]
    text = render(Report({}, {}, [part]))
    for expected in (
        "service, 8 x 64",
        "bare calls of 256",
        "0.95 (0.95 to 0.95)",
        "0.50",
        "old snapshot is held",
    ):
        assert expected in text
    assert len(part.runs) == 3 * 3 * 3
    assert all(run.audit == CLEAN for run in part.runs)
