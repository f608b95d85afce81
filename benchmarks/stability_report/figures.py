"""The figures of a report of stability: computed by Spark from the tables of all runs, a job for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession

from telesto.benchmarks.pages.section import Field, Figures, Kind, collect, columns, figures_of
from telesto.benchmarks.run_data import throughput as run_throughput
from telesto.benchmarks.run_data import usage as run_usage
from telesto.benchmarks.run_data.latencies import (
    FIGURES,
    HANDED_OVER,
    SENT,
    distribution,
    latencies_by_interval,
    merged,
)
from telesto.benchmarks.run_data.runs import Runs
from telesto.benchmarks.run_data.timeline import FINE, Timelines, counted, timelines
from telesto.benchmarks.stability_report.verdict import Limits

RUNS_MAX: Final = 12
"""At most this many runs are shown in detail, first repetitions of each combination first."""
ROWS_MAX: Final = 50_000
"""Rows of one kind of figures, of all runs: some hundred points of each series."""
WITHOUT_BACKLOG: Final = ("fan-out",)
"""Workloads without queues."""
LOG_COLUMN: Final = Field("bytes", "log for a message", Kind.BYTES)

_RUN: Final = Field("run", "run", Kind.TEXT)
_INTERVAL: Final = (
    _RUN,
    Field("phase", "phase", Kind.TEXT, on_page=False),
    Field("step", "step", Kind.TEXT, on_page=False),
    Field("at_s", "from", Kind.SECONDS),
    Field("width_s", "length", Kind.SECONDS, on_page=False),
)
_LATENCIES: Final = (
    *columns(Kind.COUNT, count="operations"),
    *columns(
        Kind.SECONDS, p50_s="p50", p90_s="p90", p99_s="p99", p99_9_s="p99.9", max_s="max", mean_s="mean"
    ),
)
assert {field.name for field in _LATENCIES} == set(FIGURES)


@dataclass(frozen=True, slots=True)
class Course:
    """The computed figures of some runs.

    Attributes:
        lines: the runs that are shown in detail.
        figures: by key; each has the column `run` first.
        limits: the user's definition of stable.
        operations: the operation of a run whose latency, and age, is shown: by run and measure.
    """

    runs: Runs
    lines: Timelines
    figures: Mapping[str, Figures]
    limits: Limits
    operations: Mapping[tuple[str, str], str]

    def of(self, key: str, run: str, step: str | None = None, phase: str | None = None) -> Figures:
        """The figures of one run, without its name; of a series, those of one step and phase."""
        wanted = {name: value for name, value in (("run", run), ("step", step), ("phase", phase)) if value}
        found = self.figures[key].where(**wanted)
        fields = [field for field in found.fields if field.name not in wanted or field.name == "phase"]
        rows = (tuple(row[field.name] for field in fields) for row in found.dicts())
        suffix = "_fine" if step == FINE else ""
        return figures_of(self.key_of(f"{key}{suffix}", run), fields, rows)

    def key_of(self, name: str, run: str) -> str:
        """The key of a run's figures; it contains the run's name if there are several."""
        return name if len(self.runs.complete) == 1 else f"{run}-{name}"


@dataclass(frozen=True, slots=True)
class _Job:
    key: str
    frame: Callable[[_Frames], DataFrame]
    fields: Sequence[Field]
    order: Sequence[Column | str]


class _Frames:
    """The tables of the runs, and frames that several jobs share."""

    def __init__(
        self,
        spark: SparkSession,
        runs: Runs,
        lines: Timelines,
        operations: Mapping[tuple[str, str], str],
        share: float,
    ) -> None:
        self.lines = lines
        self.stall_below = share
        self.operations = operations
        self.throughput = runs.table(spark, "throughput")
        self.histograms = runs.table(spark, "histograms")
        self.tiers = runs.table(spark, "tiers")
        self.counters = runs.table(spark, "counters")
        self.waits = runs.table(spark, "waits")
        self.seconds = run_throughput.messages_by_second(self.throughput, lines).persist()
        self.backlog = run_throughput.backlog_by_second(self.throughput, lines, _at_first(runs, lines))
        inside = counted(self.histograms, lines, "second")
        self.latencies = merged(inside, ["run", "operation", "measure"]).persist()

    def release(self) -> None:
        """Release Spark's caches."""
        self.seconds.unpersist()
        self.latencies.unpersist()


def _at_first(runs: Runs, lines: Timelines) -> dict[str, int]:
    """The backlog before the load, of runs that have queues."""
    return {
        run.name: run.settings.backlog
        for run in runs.complete
        if run.name in lines and run.settings.workload not in WITHOUT_BACKLOG
    }


def _series(key: str, frame: Callable[[_Frames], DataFrame], *fields: Field) -> _Job:
    """A series, in fine and in coarse intervals."""
    names = [field.name for field in fields if field.kind is Kind.TEXT]
    return _Job(key, frame, (*_INTERVAL, *fields), ["run", "step", "at_s", *names])


_TIER = Field("tier", "tier", Kind.TEXT)
_COUNTER = columns(Kind.TEXT, source="view", counter="counter")
_OPERATION = columns(Kind.TEXT, "operation", "measure")
_EVENT = Field("event", "wait event", Kind.TEXT)

_JOBS: Final = (
    _series(
        "throughput",
        lambda frames: run_throughput.messages_by_interval(frames.seconds, frames.lines),
        Field("rate", "messages/s", Kind.RATIO),
        *columns(Kind.COUNT, least="slowest second", most="fastest second"),
    ),
    _series(
        "latency",
        lambda frames: latencies_by_interval(frames.histograms, frames.lines, frames.operations),
        Field("measure", "measure", Kind.TEXT),
        *_LATENCIES,
    ),
    _series(
        "backlog",
        lambda frames: run_throughput.backlog_by_interval(frames.backlog, frames.lines),
        *columns(Kind.COUNT, backlog="there at the end", most="most in it"),
    ),
    _series(
        "processors",
        lambda frames: run_usage.processors_by_interval(frames.tiers, frames.lines),
        _TIER,
        Field("processors", "processors", Kind.RATIO),
    ),
    _series(
        "memory",
        lambda frames: run_usage.memory_by_interval(frames.tiers, frames.lines),
        _TIER,
        Field("memory_bytes", "memory", Kind.BYTES),
    ),
    _series(
        "levels",
        lambda frames: run_usage.levels_by_interval(frames.counters, frames.lines),
        *_COUNTER,
        Field("level", "there", Kind.COUNT),
    ),
    _series(
        "wal",
        lambda frames: run_usage.growth_by_interval(run_usage.of_log(frames.counters), frames.lines),
        *_COUNTER,
        Field("per_s", "log in a second", Kind.BYTES),
    ),
    _series(
        "waits_over_time",
        lambda frames: run_usage.waits_by_interval(frames.waits, frames.lines),
        _EVENT,
        Field("backends", "backends", Kind.RATIO),
    ),
    _Job(
        "waits",
        lambda frames: run_usage.waits_by_event(frames.waits, frames.lines),
        (_RUN, _EVENT, Field("backends", "backends, mean", Kind.RATIO), Field("share", "share", Kind.SHARE)),
        ["run", "share"],
    ),
    _Job(
        "latencies",
        lambda frames: frames.latencies,
        (_RUN, *_OPERATION, *_LATENCIES),
        ["run", "operation", "measure"],
    ),
    _Job(
        "distribution",
        lambda frames: distribution(frames.latencies, ["run", "operation", "measure"]),
        (
            _RUN,
            *_OPERATION,
            *columns(Kind.SECONDS, from_s="from", to_s="to"),
            *columns(Kind.COUNT, count="operations", longer="took longer"),
        ),
        ["run", "operation", "measure", "from_s"],
    ),
    _Job(
        "stalls",
        lambda frames: run_throughput.stalls(frames.seconds, frames.lines, frames.stall_below),
        (
            _RUN,
            *columns(Kind.SECONDS, from_s="began at", seconds="lasted"),
            *columns(Kind.COUNT, least="messages in its worst second", missed="shortfall against the median"),
        ),
        ["run", "from_s"],
    ),
    _Job(
        "counters",
        lambda frames: run_usage.totals(frames.counters, frames.lines),
        (_RUN, *_COUNTER, Field("total", "rose by", Kind.COUNT), Field("per_s", "per second", Kind.RATIO)),
        ["run", "source", "counter"],
    ),
    _Job(
        "checkpoints",
        lambda frames: run_usage.checkpoints(frames.counters),
        (_RUN, Field("since_s", "at", Kind.SECONDS), Field("checkpoints", "checkpoints", Kind.COUNT)),
        ["run", "since_s"],
    ),
)
STEPS: Final = len(_JOBS)
"""How often `compute` calls `step`."""


def compute(
    spark: SparkSession, runs: Runs, limits: Limits, pool: Executor, step: Callable[[], None]
) -> Course:
    """Compute all figures, some at a time.

    Raises RunsError if a table of a run is missing or of another release, or the run has no measured second.
    """
    names = _detailed(runs)
    lines = timelines(runs, runs.table(spark, "throughput"), names)
    operations = _operations(runs.results, names)
    frames = _Frames(spark, runs, lines, operations, limits.stall_below)

    def work(job: _Job) -> Figures:
        figures = collect(job.frame(frames), job.key, job.fields, job.order, ROWS_MAX)
        step()
        return figures

    try:
        found = {figures.key: figures for figures in pool.map(work, _JOBS)}
    finally:
        frames.release()
    return Course(runs, lines, found, limits, operations)


def _detailed(runs: Runs) -> list[str]:
    """The runs that are shown in detail, first repetitions first."""
    order = sorted(runs.complete, key=lambda run: (run.repetition, run.combination))
    return sorted(run.name for run in order[:RUNS_MAX])


def _operations(results: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> dict[tuple[str, str], str]:
    """The operations whose latency and age are shown: the first in the lists that the run has."""
    chosen = {}
    for name in names:
        latencies = results[name]["figures"]["latencies"]
        for measure, operations in (("latency", SENT), ("age", HANDED_OVER)):
            found = [each for each in operations if measure in latencies.get(each, {})]
            if found:
                chosen[name, measure] = found[0]
    return chosen
