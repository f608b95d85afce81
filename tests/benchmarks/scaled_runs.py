"""Runs of a closed system whose throughput and response time are those of a law, to report on."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from run_directories import Course, finish, make_experiment
from telesto.benchmarks.harness.experiment import Run
from telesto.benchmarks.harness.manifest import ExperimentDirectory

CALL_ALONE_S, CALL_EACH_S = 0.002, 0.0005
"""A call with n requests takes 2 ms and half a millisecond for each."""


def clients_rate(run: Run) -> float:
    """Messages per second by the Universal Scalability Law, a little more in every further repetition."""
    n = run.settings.clients
    return 100 * n / (1 + 0.1 * (n - 1) + 0.002 * n * (n - 1)) * (1 + 0.01 * run.repetition)


def scaled(
    path: Path,
    rate: Callable[[Run], float] = clients_rate,
    skipped: Callable[[Run], bool] = lambda _run: False,
    tables: Mapping[str, Any] | None = None,
    **values: Any,
) -> ExperimentDirectory:
    """An experiment with runs of that many messages per second; `skipped` ones are not complete."""
    settings = {"warm_up_s": 1, "duration_s": 3, "cool_down_s": 1, **values.pop("settings", {})}
    directory = make_experiment(path, settings=settings, **values)
    for run in directory.runs:
        if not skipped(run):
            finish_at(directory, run, rate(run), tables)
    return directory


def finish_at(
    directory: ExperimentDirectory, run: Run, rate: float, tables: Mapping[str, Any] | None = None
) -> None:
    """Complete a run: each message is put and taken, and clients do nothing but wait."""
    response_s = run.settings.clients / (2 * rate)
    course = Course(
        completed={"put": lambda _: rate, "take": lambda _: rate},
        latencies=lambda _: [response_s] * 20,
        tables=tables if tables is not None else {"phases": phases(), "metrics": metrics(rate)},
    )
    finish(
        directory,
        run,
        course,
        figures={"messages_per_s": rate, "rates": {"put": rate, "take": rate}, "latencies": {}},
        tiers={
            tier: {"processors": share * rate, "memory_bytes": 1.0}
            for tier, share in (("client", 2e-4), ("middleware", 3e-4), ("postgres", 4e-4), ("harness", 0.0))
        },
    )


def phases() -> list[tuple[object, ...]]:
    """Requests that were followed, in calls of different sizes."""
    rows = []
    for number, batch in enumerate((1, 2, 4, 8) * 2):
        for kind in ("put", "take"):
            length_us = 1e6 * (CALL_ALONE_S + CALL_EACH_S * batch)
            parked_us = 1000.0 if kind == "take" else 0.0
            rows.append((2.0, 1, number, kind, 1, 50.0, 10.0, 500.0, length_us, parked_us, 20.0, batch, 1))
    return rows


def metrics(rate: float) -> list[tuple[object, ...]]:
    """Counters of a middleware that sends calls of four requests."""
    calls = rate / 4
    each = {"telesto_requests_total": rate, "telesto_calls_total": calls,
            "telesto_call_seconds_total": calls * (CALL_ALONE_S + 4 * CALL_EACH_S)}  # fmt: skip
    return [
        (float(second), 1, metric, kind, per_s * second)
        for second in range(5)
        for metric, per_s in each.items()
        for kind in ("put", "take")
    ]
