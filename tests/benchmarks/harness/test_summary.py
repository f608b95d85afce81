"""The figures of an experiment on one screen."""

from pathlib import Path
from typing import Any

import pytest

from telesto.benchmarks.harness.experiment import Run, check_experiment
from telesto.benchmarks.harness.manifest import ExperimentDirectory, create_or_resume
from telesto.benchmarks.harness.one_run import tier_figures
from telesto.benchmarks.harness.summary import is_clean, summarise
from telesto.benchmarks.load.settings import Window
from telesto.benchmarks.results.audit import NOTHING, Balance


@pytest.fixture
def directory(tmp_path: Path) -> ExperimentDirectory:
    values = {
        "name": "two",
        "title": "Two levels",
        "repetitions": 3,
        "settings": {"workload": "put"},
        "factors": {"clients": [1, 2]},
        "against": [{"clients": 2}],
    }
    return create_or_resume(tmp_path / "out", check_experiment(values, "test"), lambda path: {})


def finish(directory: ExperimentDirectory, run: Run, rate: float, **changes: Any) -> None:
    latency = {"p50_ms": rate / 10, "p99_ms": rate}
    result = {
        "name": run.name,
        "combination": run.combination,
        "repetition": run.repetition,
        "levels": run.levels,
        "settings": run.settings.model_dump(),
        "figures": {
            "messages_per_s": rate,
            "rates": {"put": rate, "take": 2.0},
            "latencies": {"put": {"latency": latency}, "take": {}},
            "slowest_s": 1,
            "fastest_s": 2000,
            "change": -0.125,
        },
        "tiers": {
            "client": {"processors": rate / 1e5},
            "middleware": {"processors": 0.0, "memory_bytes": 3 << 20},
        },
        "balance": NOTHING.as_plain(),
        "errors": {},
        "late": 0,
        "unsent": 0,
    }
    directory.begin_run(run)
    directory.finish_run(run, result | changes)


def cells(text: str, first: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_repetitions_become_medians_with_their_range(directory: ExperimentDirectory) -> None:
    assert summarise(directory) == "Two levels: 0 of 6 runs"
    rates = {(1, 1): 10.0, (1, 2): 1000.0, (1, 3): 30.0, (2, 1): 7.0, (2, 2): 9.0}
    for run in directory.runs:
        rate = rates.get((run.combination, run.repetition))
        if rate is not None:
            finish(directory, run, rate)
    text = summarise(directory)
    assert text.startswith("Two levels: 5 of 6 runs")
    figures, operations = text.split("\n\n")[1:3]
    # The third repetition of the second combination is not there: it is compared with nothing.
    ratio = f"{(10 / 7 + 1000 / 9) / 2:.2f} ({10 / 7:.2f} to {1000 / 9:.2f})"
    course = ["1", "2,000", "-12.5%"]
    assert cells(figures, "1") == ["1", "30", "10", "1,000", ratio, *course, "10.0", "0.0", "", "3"]
    assert cells(figures, "2")[:5] == ["2", "8", "7", "9", ""]
    assert cells(operations, "1") == ["1", "put", "30", "3.00", "30.00", "", ""]
    assert operations.count("take") == 2
    assert is_clean(directory)


def test_what_went_wrong_is_told(directory: ExperimentDirectory) -> None:
    lost = Balance(10, 9, 0, 0, 1, 0, 0, 0, (5,)).as_plain()
    first, second = directory.runs[:2]
    finish(directory, first, 1.0, errors={"put: QueueFullError": 3}, late=4, unsent=1200)
    finish(directory, second, 1.0, errors={"put: QueueFullError": 2}, balance=lost)
    text = summarise(directory)
    assert "5 x put: QueueFullError" in text
    assert "4 requests were sent late, 1,200 were not sent in time" in text
    assert f"NOT CLEAN: runs {second.name}" in text
    assert not is_clean(directory)


def test_a_backlog_that_was_used_up_is_told(directory: ExperimentDirectory) -> None:
    first, second = directory.runs[:2]
    settings = first.settings.model_dump() | {"workload": "read", "backlog": 10}
    finish(directory, first, 1.0, settings=settings)
    finish(directory, second, 1.0, settings=settings | {"workload": "drain"})
    assert f"Nothing of the backlog was left in runs {first.name}:" in summarise(directory)


def test_tiers_are_measured_within_the_window() -> None:
    rows: list[tuple[object, ...]] = [
        (float(second), "client", process, second * used, 1000 * process + second)
        for second, used in ((0, 9.0), (1, 0.1), (2, 0.1), (3, 0.1), (4, 9.0))
        for process in (1, 2)
    ]
    figures = tier_figures(rows, Window(1.0, 3.0))
    assert figures["client"]["processors"] == pytest.approx(0.2)
    assert figures["client"]["memory_bytes"] == 3006
