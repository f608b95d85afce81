"""The runs of an experiment as levels of one factor, with the measurements of each run.

The functions from data frames to data frames give one row, or one for each kind, of every run. Their tables
have no warm-up and no cool-down (`timeline.counted`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from telesto.benchmarks.analysis.queueing import Station
from telesto.benchmarks.analysis.repetitions import Mean, mean_of
from telesto.benchmarks.harness.experiment import Run
from telesto.benchmarks.load.settings import RunSettings, middleware_settings
from telesto.benchmarks.run_data.latencies import SENT, merged
from telesto.benchmarks.run_data.runs import AGAIN, Runs, told
from telesto.benchmarks.run_data.timeline import counted, timelines
from telesto.benchmarks.spark.errors import RunsError

PHASES: Final = ("parse", "fifo", "database", "parked", "answer")
"""The phases of a request in the middleware, in their order."""
CALL_COUNTERS: Final = {
    "telesto_requests_total": "requests",
    "telesto_calls_total": "calls",
    "telesto_call_seconds_total": "busy",
}
"""Counters of the middlewares by kind of request, and the names of their rates here."""
_US_PER_S: Final = 1e6


def response_times(histograms: DataFrame, operations: Mapping[str, Sequence[str]]) -> DataFrame:
    """The response time of each run, over its `operations`: `run` and what `latencies.merged` gives."""
    rows = [(run, operation) for run, names in operations.items() for operation in names]
    shown = histograms.sparkSession.createDataFrame(rows, "run string, operation string")
    wanted = histograms.where(F.col("measure") == "latency").join(F.broadcast(shown), ["run", "operation"])
    return merged(wanted, ["run"]).drop("encoded")


def phase_means(phases: DataFrame) -> DataFrame:
    """Mean times in each phase: `run`, `kind`, `followed`, PHASES with `_s`, `tries`, `batch`."""
    means = [F.avg(f"{name}_us").alias(name) for name in PHASES]
    groups = phases.groupBy("run", "kind").agg(
        F.count("*").alias("followed"), *means, F.avg("tries").alias("tries"), F.avg("batch").alias("batch")
    )
    seconds = [(F.col(name) / _US_PER_S).alias(f"{name}_s") for name in PHASES]
    return groups.select("run", "kind", "followed", *seconds, "tries", "batch")


def call_times(phases: DataFrame) -> DataFrame:
    """The length of a call against its number of requests: `run`, `kind`, `alone_s`, `each_s`.

    The straight line through the sampled calls, S(n) = alone_s + each_s n, by least squares; both are NULL if
    all calls had one size. Requests that were in several calls are left out.
    """
    once = phases.where((F.col("tries") == 1) & (F.col("batch") > 0))
    length, size = F.col("database_us") / _US_PER_S, F.col("batch").cast("double")
    return once.groupBy("run", "kind").agg(
        F.regr_intercept(length, size).alias("alone_s"), F.regr_slope(length, size).alias("each_s")
    )


def calls_per_s(metrics: DataFrame) -> DataFrame:
    """The rates of all middlewares together: `run`, `kind`, `requests`, `calls`, `busy` (seconds).

    From the first to the last measured sample. A counter that falls was reset.
    """
    counters = metrics.where(F.col("metric").isin(*CALL_COUNTERS) & (F.col("label") != ""))
    line = Window.partitionBy("run", "middleware", "metric", "label").orderBy("since_s")
    before = F.lag("value").over(line)
    rose = (
        F.when(before.isNull(), 0.0)
        .when(F.col("value") < before, F.col("value"))
        .otherwise(F.col("value") - before)
    )
    length = F.col("since_s") - F.lag("since_s").over(line)
    rises = counters.select(
        "run", "middleware", "metric", "label", rose.alias("rose"), length.alias("length")
    )
    rates = rises.groupBy("run", "middleware", "metric", "label").agg(
        (F.sum("rose") / F.sum("length")).alias("per_s")
    )
    columns = [
        F.coalesce(F.sum(F.when(F.col("metric") == metric, F.col("per_s"))), F.lit(0.0)).alias(name)
        for metric, name in CALL_COUNTERS.items()
    ]
    kinds = rates.groupBy("run", F.col("label").alias("kind")).agg(*columns)
    return kinds.where(F.col("requests") > 0)


BLOCKING: Final = ("put", "take", "request", "reply", "publish", "get")
"""Operations in which a slot of a client waits for the answer. Of the others it has several in flight, or
they are parts of these."""
CLOSED_WORKLOADS: Final = ("one-way", "pairs", "pool", "mix", "put", "read", "put-read")
"""In these workloads slots do only BLOCKING operations: they are the customers of a closed system."""
TIERS: Final = ("client", "middleware", "postgres", "harness")
WORKERS_DEFAULT: Final = 1
"""For each batched kind of request, if an experiment does not set it (docs/how-to/operations.md)."""
APART: Final = ("put", "take", "take_selected", "publish")
"""Kinds with one more worker in each middleware, for requests of clients that met a lock."""
#: Kinds of requests with another name in the settings than in the metrics.
SETTING_OF_KIND: Final = {"take_selected": "selected"}
ON_THE_WAY: Final = ("put", "take", "take_selected", "publish", "fetch")
"""Kinds of requests for whose calls clients wait."""
SERIES_MAX: Final = 6
"""At most this many combinations of the other factors' levels are shown for a factor."""
STEPS: Final = 4
"""How often `measure` calls `step`."""
_PROCESSORS: Final = re.compile(r"\s*(\d+)\b")


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one kind of request.

    Attributes:
        requests, calls, busy: per second; `busy` in seconds of calls, so it is their mean concurrency.
        alone_s, each_s: of S(n) = alone_s + each_s n; None if all calls had one size.
    """

    requests: float
    calls: float
    busy: float
    alone_s: float | None = None
    each_s: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of one run.

    Attributes:
        messages_per_s: messages delivered; put, if no client reads.
        operations_per_s: of the operations in the response time.
        response_s: mean and percentiles of the response time, by the names of `latencies.FIGURES`.
        processors: used by each tier.
        phases: for each kind of request, seconds in each of PHASES, `followed` and `batch`.
        unsent, late: of an open loop.
    """

    settings: RunSettings
    messages_per_s: float
    operations_per_s: float
    response_s: Mapping[str, float]
    processors: Mapping[str, float]
    phases: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    calls: Mapping[str, Calls] = field(default_factory=dict)
    unsent: int = 0
    late: int = 0

    @property
    def customers(self) -> int:
        """Client slots that each have a request in flight."""
        return self.settings.clients * self.settings.in_flight

    @property
    def phase_s(self) -> dict[str, float]:
        """Seconds of a request in each phase, over all kinds."""
        followed = sum(each["followed"] for each in self.phases.values())
        return {
            name: sum(each[f"{name}_s"] * each["followed"] for each in self.phases.values()) / followed
            for name in PHASES
        } if followed else {}  # fmt: skip

    def stations(self, processors: int | None) -> list[Station]:
        """All stations of the service and their utilisation; `processors` are those of the machine."""
        settings, rate = self.settings, self.operations_per_s
        found = []
        if processors:
            found.append(Station("processors", processors, sum(self.processors.values()), rate))
        loop = self.processors.get("middleware", 0.0)
        found.append(Station("middleware loops", settings.middlewares, loop, rate))
        load = self.processors.get("client", 0.0)
        found.append(Station("load generators", settings.processes, load, rate))
        for kind, calls in sorted(self.calls.items()):
            if kind != "single":
                servers = settings.middlewares * workers_of(settings, kind)
                found.append(Station(f"calls: {kind}", servers, calls.busy, rate))
        return found


def workers_of(settings: RunSettings, kind: str) -> int:
    """Concurrent calls of a kind that a middleware may have."""
    name = f"TELESTO_{SETTING_OF_KIND.get(kind, kind).upper()}_WORKERS"
    return int(middleware_settings(settings).get(name, WORKERS_DEFAULT)) + (kind in APART)


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a factor and its repetitions."""

    value: float
    runs: tuple[Measured, ...]

    def mean(self, of: Callable[[Measured], float]) -> Mean:
        """The mean of a figure over the repetitions, with its interval."""
        return mean_of([of(run) for run in self.runs])

    def value_of(self, of: Callable[[Measured], float]) -> float:
        """The mean of a figure over the repetitions."""
        return self.mean(of).mean


@dataclass(frozen=True, slots=True)
class Sweep:
    """A factor over its levels, with all others fixed.

    Attributes:
        experiment: its title.
        factor: its name, with its unit.
        others: the levels of the other factors.
        levels: in rising order.
        processors: of the machine; None if unknown.
    """

    experiment: str
    factor: str
    others: Mapping[str, Any]
    levels: tuple[Level, ...]
    processors: int | None

    @property
    def name(self) -> str:
        """A short description."""
        fixed = ", ".join(f"{name} = {value}" for name, value in self.others.items())
        return f"{self.factor} ({fixed})" if fixed else self.factor

    @property
    def open(self) -> bool:
        """Whether requests were sent on a schedule, whatever the service did."""
        return any(run.settings.loop == "open" for level in self.levels for run in level.runs)

    @property
    def closed(self) -> bool:
        """Whether it is a closed system, whose customers are the slots of clients."""
        runs = [run.settings for level in self.levels for run in level.runs]
        return all(run.loop == "closed" and run.workload in CLOSED_WORKLOADS for run in runs)

    @property
    def values(self) -> list[float]:
        """The levels."""
        return [level.value for level in self.levels]

    @property
    def best(self) -> Level:
        """The level with the highest throughput."""
        return max(self.levels, key=lambda level: level.value_of(messages))


def measure(spark: SparkSession, runs: Runs, step: Callable[[], None] = lambda: None) -> dict[str, Measured]:
    """Read the measurements of every complete run, by its name.

    Raises RunsError if a table, or a figure in run.json, is missing.
    """
    lines = timelines(runs, runs.table(spark, "throughput"))
    operations = {run.name: operations_of(run.settings, _rates(runs, run)) for run in runs.complete}
    histograms = counted(runs.table(spark, "histograms"), lines, "second")
    times = response_times(histograms, operations).collect()
    step()
    phases = counted(runs.table(spark, "phases"), lines, "since_s").cache()
    try:
        means, lengths = phase_means(phases).collect(), call_times(phases).collect()
    finally:
        phases.unpersist()
    step()
    calls = calls_per_s(counted(runs.table(spark, "metrics"), lines, "since_s")).collect()
    step()
    by_run = [_by_run(rows) for rows in (times, means, lengths, calls)]
    found = {
        run.name: _measured(runs, run, operations[run.name], *(rows.get(run.name, []) for rows in by_run))
        for run in runs.complete
    }
    step()
    return found


def _by_run(rows: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(row.asDict())
    return found


def operations_of(settings: RunSettings, rates: Mapping[str, float]) -> list[str]:
    """The operations in the response time of the run.

    In a closed system all operations in which clients wait; otherwise the first of SENT.
    """
    if settings.loop == "closed" and settings.workload in CLOSED_WORKLOADS:
        return [name for name in BLOCKING if name in rates]
    return [next((name for name in SENT if rates.get(name)), SENT[0])]


def sweeps_of(runs: Runs, measured: Mapping[str, Measured]) -> tuple[list[Sweep], list[str]]:
    """The sweeps of an experiment over its numeric factors, and remarks about the others."""
    factors, said = runs.experiment.varied, []
    sweeps: list[Sweep] = []
    if not factors:
        raise RunsError(
            f"{runs.directory.path}: {runs.experiment.name} varies nothing, so there is no factor"
        )
    for factor, levels in factors.items():
        if not all(_numeric(level) for level in levels):
            said.append(f"{factor} has levels that are not numbers, so it has no curve.")
            continue
        found = _sweeps_over(runs, measured, factor)
        if not found:
            said.append(f"{factor} has complete runs of one level only: there is nothing to compare.")
        if len(found) > SERIES_MAX:
            said.append(
                f"{factor} was varied with {len(found)} combinations of the other factors; the first "
                f"{SERIES_MAX} are shown. `telesto report factorial` is for designs of many factors."
            )
        sweeps += found[:SERIES_MAX]
    if not sweeps:
        raise RunsError(
            f"{runs.directory.path}: no factor has runs of two levels that are numbers. {' '.join(said)}"
        )
    return sweeps, said


def _sweeps_over(runs: Runs, measured: Mapping[str, Measured], factor: str) -> list[Sweep]:
    groups: dict[str, tuple[dict[str, Any], dict[float, list[Measured]]]] = {}
    for run in sorted(runs.complete, key=lambda each: (each.combination, each.repetition)):
        others = {name: level for name, level in run.levels.items() if name != factor}
        _, levels = groups.setdefault(repr(others), (others, {}))
        levels.setdefault(float(run.levels[factor]), []).append(measured[run.name])
    processors = processors_of(runs)
    return [
        Sweep(
            runs.experiment.title,
            factor,
            others,
            tuple(Level(value, tuple(of_level)) for value, of_level in sorted(levels.items())),
            processors,
        )
        for others, levels in groups.values()
        if len(levels) > 1
    ]


def processors_of(runs: Runs) -> int | None:
    """The number of processors of the experiment's machine ("2 x AMD EPYC")."""
    found = _PROCESSORS.match(str(runs.origin.get("machine", {}).get("processors", "")))
    return int(found[1]) if found and int(found[1]) else None


def _measured(
    runs: Runs,
    run: Run,
    operations: Sequence[str],
    times: Sequence[Mapping[str, Any]],
    means: Sequence[Mapping[str, Any]],
    lines: Sequence[Mapping[str, Any]],
    calls: Sequence[Mapping[str, Any]],
) -> Measured:
    result, rates = runs.results[run.name], _rates(runs, run)
    if not times or times[0]["mean_s"] is None:
        raise RunsError(
            f"run {run.name} has no latencies of {told(operations)} in the measured part: too short?"
        )
    by_kind = {line["kind"]: (line["alone_s"], line["each_s"]) for line in lines}
    return Measured(
        settings=run.settings,
        messages_per_s=float(result["figures"]["messages_per_s"]),
        operations_per_s=sum(rates.get(name, 0.0) for name in operations),
        response_s={name: value for name, value in times[0].items() if name != "run"},
        processors={tier: float(result["tiers"].get(tier, {}).get("processors", 0.0)) for tier in TIERS},
        phases={row["kind"]: row for row in means},
        calls={
            row["kind"]: Calls(row["requests"], row["calls"], row["busy"], *by_kind.get(row["kind"], ()))
            for row in calls
        },
        unsent=int(result["unsent"]),
        late=int(result["late"]),
    )


def _rates(runs: Runs, run: Run) -> Mapping[str, float]:
    figures = runs.results[run.name]["figures"]
    if "rates" not in figures or "messages_per_s" not in figures:
        raise RunsError(f"run {run.name} has no rates: it was written by another release; {AGAIN}")
    rates: Mapping[str, float] = figures["rates"]
    return rates


def _numeric(level: object) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)


def messages(run: Measured) -> float:
    """Messages per second of a run."""
    return run.messages_per_s


def operations(run: Measured) -> float:
    """Operations per second, of those in the response time."""
    return run.operations_per_s


def response(run: Measured) -> float:
    """The mean response time of a run, in seconds."""
    return run.response_s["mean_s"]


def percentile(key: str) -> Callable[[Measured], float]:
    """A percentile of the response time, in seconds, by its name in `latencies.FIGURES`."""
    return lambda run: run.response_s[key]


def means_of(sweep: Sweep, of: Callable[[Measured], float]) -> list[Mean]:
    """A figure at each level, with its interval."""
    return [level.mean(of) for level in sweep.levels]


def singles_of(sweep: Sweep, of: Callable[[Measured], float]) -> list[list[float]]:
    """A figure of each run, by level."""
    return [[of(run) for run in level.runs] for level in sweep.levels]


def least_of(mean: Mean) -> float | None:
    """The lower end of an interval of a figure that cannot be negative."""
    return None if mean.low is None else max(mean.low, 0.0)


def stations_of(level: Level, sweep: Sweep) -> list[Station]:
    """The stations of a level, with the means of its repetitions."""
    by_name: dict[str, list[Station]] = {}
    for run in level.runs:
        for station in run.stations(sweep.processors):
            by_name.setdefault(station.name, []).append(station)
    return [
        replace(
            same[0],
            busy=fmean(each.busy for each in same),
            throughput_per_s=fmean(each.throughput_per_s for each in same),
        )
        for same in by_name.values()
    ]


def customers_of_client(sweep: Sweep) -> float:
    """Customers for each client."""
    settings = sweep.levels[0].runs[0].settings
    return float(settings.in_flight)


def messages_per_operation(sweep: Sweep) -> float:
    """Messages for each operation, on average over all runs."""
    return fmean(run.messages_per_s / run.operations_per_s for level in sweep.levels for run in level.runs)
