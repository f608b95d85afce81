"""Directories of experiments as `telesto bench run` leaves them, small and with figures a test chooses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from telesto.benchmarks.harness.experiment import Run, check_experiment
from telesto.benchmarks.harness.manifest import ExperimentDirectory, create_or_resume
from telesto.benchmarks.results.audit import Balance
from telesto.benchmarks.results.histograms import encode, histogram_of
from telesto.benchmarks.results.tables import Row, Tables

SETTINGS = {"workload": "put-read", "clients": 4, "warm_up_s": 2, "duration_s": 6, "cool_down_s": 1}
ORIGIN = {
    "machine": {"processor": "test", "processors": 2},
    "versions": {"telesto-mq": "0"},
    "source": {"commit": "0123456789abcdef", "changed": False},
}
CLEAN = Balance(100, 90, 10, 0, 0, 0, 0, 0)
LOST = Balance(100, 89, 10, 0, 1, 0, 0, 0, (7,))
MEGABYTE = 1_000_000
LATENCIES = {operation: {"latency": {"p50_ms": 10.0, "p99_ms": 50.0}} for operation in ("put", "take")}

BySecond = Callable[[int], float]


@dataclass(frozen=True)
class Course:
    """What happens in a run, as functions of the second; the defaults are those of a run without an event.

    Attributes:
        completed: operations that end in a second, by operation.
        latencies: latencies in seconds of the operations that end in a second, all operations alike.
        processors: CPU seconds that a tier uses in a second, by tier.
        memory_bytes: memory of a tier.
        counters: counters of PostgreSQL, by (source, counter).
        tables: rows of further tables (`waits`, `phases`, `metrics`, `samples`), as their schemas have them.
    """

    completed: Mapping[str, BySecond] = field(
        default_factory=lambda: {"put": lambda _: 100.0, "take": lambda _: 100.0}
    )
    latencies: Callable[[int], Sequence[float]] = lambda _: [0.010] * 90 + [0.050] * 10
    processors: Mapping[str, BySecond] = field(
        default_factory=lambda: {
            "client": lambda _: 0.2,
            "middleware": lambda _: 0.5,
            "postgres": lambda _: 0.9,
        }
    )
    memory_bytes: Callable[[str, int], float] = lambda _tier, _second: 50.0 * MEGABYTE
    counters: Mapping[tuple[str, str], BySecond] = field(
        default_factory=lambda: {
            ("wal", "wal_bytes"): lambda second: 1000.0 * second,
            ("database", "xact_commit"): lambda second: 10.0 * second,
            ("tables", "n_dead_tup"): lambda _: 40.0,
        }
    )
    tables: Mapping[str, Iterable[Row]] = field(default_factory=dict)


def make_experiment(path: Path, **values: Any) -> ExperimentDirectory:
    """Begin an experiment; `values` as in a file, of which `settings` are added to SETTINGS."""
    settings = SETTINGS | values.pop("settings", {})
    for factor in values.get("factors", {}):
        settings.pop(factor, None)
    whole = {"name": "trial", "title": "A trial", "seed": 1, **values, "settings": settings}
    return create_or_resume(path, check_experiment(whole, "test"), lambda _: ORIGIN)


def finish(
    directory: ExperimentDirectory,
    run: Run,
    course: Course | None = None,
    balance: Balance = CLEAN,
    **changes: Any,
) -> None:
    """Complete a run: its tables as the course says, run.json with the changes."""
    course = course or Course()
    with Tables(directory.begin_run(run)) as tables:
        for second in range(int(run.settings.total_s)):
            _write_second(tables, second, course)
        for name, rows in course.tables.items():
            tables.add(name, rows)
    directory.finish_run(run, _result(run, balance) | changes)


def finished(path: Path, course: Course | None = None, **values: Any) -> ExperimentDirectory:
    """An experiment of which all runs are complete and alike."""
    directory = make_experiment(path, **values)
    for run in directory.runs:
        finish(directory, run, course)
    return directory


def _write_second(tables: Tables, second: int, course: Course) -> None:
    latencies = np.array(course.latencies(second), np.float32)
    for operation, completed in course.completed.items():
        if count := int(completed(second)):
            tables.add("throughput", [(second, operation, count)])
        if len(latencies):
            encoded = encode(histogram_of(latencies))
            tables.add("histograms", [(second, operation, "latency", len(latencies), encoded)])
    since = float(second)
    for tier, processors in course.processors.items():
        used = sum(processors(each) for each in range(second))
        memory = int(course.memory_bytes(tier, second))
        tables.add("tiers", [(since, tier, 1, used, memory)])
    rows = [(since, source, name, value(second)) for (source, name), value in course.counters.items()]
    tables.add("counters", rows)


def _result(run: Run, balance: Balance) -> dict[str, Any]:
    return {
        "name": run.name,
        "combination": run.combination,
        "repetition": run.repetition,
        "levels": run.levels,
        "seed": run.seed,
        "settings": run.settings.model_dump(),
        "source": ORIGIN["source"],
        "began_at": "2026-01-05T12:00:00+00:00",
        "database": None,
        "server": {"server_version": "17.0", "shared_buffers": "128MB"},
        "figures": {"messages_per_s": 100.0, "rates": {"put": 100.0, "take": 100.0}, "latencies": LATENCIES},
        "tiers": {},
        "balance": balance.as_plain(),
        "errors": {},
        "late": 0,
        "unsent": 0,
        "redelivered": 0,
        "tables": {"before": [], "after": []},
    }
