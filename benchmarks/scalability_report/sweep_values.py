"""Figures of runs and levels that several sections of the report on scalability show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from telesto.benchmarks.analysis.repetitions import Mean
from telesto.benchmarks.analysis.stations import Station
from telesto.benchmarks.pages.section import Field, Figures, Row
from telesto.benchmarks.scalability_report.sweep import Level, Measured, Sweep


def messages(run: Measured) -> float:
    """Messages per second of a run."""
    return run.messages_per_s


def operations(run: Measured) -> float:
    """Operations per second, of those whose response time is told."""
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
    """The lower end of an interval of what cannot be negative."""
    return None if mean.low is None else max(mean.low, 0.0)


def stations_of(level: Level, sweep: Sweep) -> list[Station]:
    """The stations of a level, with the means of its repetitions."""
    by_name: dict[str, list[Station]] = {}
    for run in level.runs:
        for station in run.stations(sweep.processors):
            by_name.setdefault(station.name, []).append(station)
    return [
        Station(
            name,
            same[0].servers,
            fmean(each.busy for each in same),
            fmean(each.throughput_per_s for each in same),
        )
        for name, same in by_name.items()
    ]


def customers_of_client(sweep: Sweep) -> float:
    """Customers that a client stands for."""
    settings = sweep.levels[0].runs[0].settings
    return float(settings.in_flight)


def messages_per_operation(sweep: Sweep) -> float:
    """Messages for each operation, in the mean of all runs."""
    return fmean(run.messages_per_s / run.operations_per_s for level in sweep.levels for run in level.runs)


def figures_of(key: str, fields: Sequence[Field], rows: Sequence[Row]) -> Figures:
    """A table that is shown as a whole."""
    return Figures(key, tuple(fields), tuple(rows), len(rows))
