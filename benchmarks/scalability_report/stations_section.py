"""Sections on utilisation: stations, processors by tier, and phases of a request."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Final

from telesto.benchmarks.analysis.queueing import Station, deviation
from telesto.benchmarks.pages.section import Field, Figures, Kind, Row, Section, columns, duration, figures_of
from telesto.benchmarks.scalability_report import plots as scalability_plots
from telesto.benchmarks.scalability_report.sweep import PHASES, TIERS, Level, Measured, Sweep, stations_of

US_PER_S: Final = 1e6
MS_PER_S: Final = 1e3
BUSY: Final = 0.85
"""A station with higher utilisation is a bottleneck."""
PHASE_NAMES: Final = {
    "parse": "reading the request",
    "fifo": "waiting for a call",
    "database": "in calls",
    "parked": "waiting for a message",
    "answer": "answering",
}
PHASE_FIELDS: Final = (
    *columns(Kind.SECONDS, **{f"{name}_s": PHASE_NAMES[name] for name in PHASES}),
    *columns(Kind.RATIO, batch="requests in a call"),
)


def busiest(level: Level, sweep: Sweep) -> Station | None:
    """The station of a level with the highest utilisation."""
    return max(stations_of(level, sweep), key=lambda station: station.utilisation, default=None)


def stations_part(sweep: Sweep) -> Section:
    """The utilisation of each station, and its limit."""
    fields = (
        *columns(Kind.RATIO, level=sweep.factor),
        *columns(Kind.TEXT, "station"),
        *columns(Kind.COUNT, "servers"),
        *columns(Kind.SHARE, "utilisation"),
        *columns(Kind.SECONDS, demand_s="demand of an operation"),
        *columns(Kind.RATIO, limit_per_s="operations per second at most"),
    )
    series: dict[str, list[float]] = {}
    rows: list[Row] = []
    for level in sweep.levels:
        for station in stations_of(level, sweep):
            limit = station.limit_per_s if station.busy else None
            demand = station.demand_s
            rows.append((level.value, station.name, station.servers, station.utilisation, demand, limit))
            series.setdefault(station.name, []).append(station.utilisation)
    whole = {name: values for name, values in series.items() if len(values) == len(sweep.levels)}
    return Section(
        "Stations",
        "The share of each station's servers that was busy (utilisation law, U = XD / m). Calls also wait "
        "for locks and disks: when all calls of a kind are busy, the middleware batches more requests into "
        "the next call.",
        figures_of("stations", fields, rows),
        scalability_plots.lines("stations", sweep.factor, sweep.values, whole, "busy"),
        _limiting(sweep),
        folded=True,
    )


def processors_part(sweep: Sweep) -> Section:
    """Processor time of a message, by tier."""
    fields = (
        *columns(Kind.RATIO, level=sweep.factor),
        *columns(Kind.SECONDS, **{f"{tier}_s": tier for tier in TIERS}, all_s="all"),
        *columns(Kind.RATIO, processors="processors in use"),
    )
    by_tier = {tier: [level.value_of(_processor_s(tier)) for level in sweep.levels] for tier in TIERS}
    sums = [sum(values) for values in zip(*by_tier.values(), strict=True)]
    used = [level.value_of(lambda run: sum(run.processors.values())) for level in sweep.levels]
    rows = [
        (level, *(by_tier[tier][index] for tier in TIERS), sums[index], used[index])
        for index, level in enumerate(sweep.values)
    ]
    change = deviation(sums[-1], sums[0])
    return Section(
        "Processor time of a message",
        "Processor seconds of all processes of a tier, divided by the messages of the same time.",
        figures_of("processors", fields, rows),
        scalability_plots.stacked(
            "processors",
            sweep.factor,
            sweep.values,
            {tier: [value * US_PER_S for value in values] for tier, values in by_tier.items()},
            "microseconds per message",
        ),
        f"At {sweep.factor} = {sweep.values[-1]:g} a message takes {duration(sums[-1])} of processor time, "
        f"{change:+.0%} against {sweep.values[0]:g}: "
        + ("messages share the cost of batches." if change < 0 else "batches save nothing."),
        folded=True,
    )


def phases_part(sweep: Sweep) -> Section | None:
    """The phases of a request in the middleware; None if no request was sampled."""
    if any(not run.phases for level in sweep.levels for run in level.runs):
        return None
    fields = (Field("level", sweep.factor, Kind.RATIO), *PHASE_FIELDS)
    parts = {name: [level.value_of(_phase(name)) for level in sweep.levels] for name in PHASES}
    batches = [level.value_of(_batch) for level in sweep.levels]
    rows = [(level, *(parts[name][i] for name in PHASES), batches[i]) for i, level in enumerate(sweep.values)]
    largest = max((name for name in PHASES if name != "parked"), key=lambda name: parts[name][-1])
    return Section(
        "Phases of a request",
        "The mean time of a request in each phase in the middleware, over all sampled requests.",
        figures_of("phases", fields, rows),
        scalability_plots.stacked(
            "phases",
            sweep.factor,
            sweep.values,
            {PHASE_NAMES[name]: [value * MS_PER_S for value in values] for name, values in parts.items()},
            "milliseconds per request",
        ),
        f"At {sweep.factor} = {sweep.values[-1]:g} the longest phase is {PHASE_NAMES[largest]} "
        f"({duration(parts[largest][-1])}). A call has {batches[-1]:.3g} requests there, and "
        f"{batches[0]:.3g} at {sweep.values[0]:g}. Reads that wait for a message cost nothing meanwhile.",
        folded=True,
        more=(_phases_by_kind(sweep),),
    )


def _limiting(sweep: Sweep) -> str:
    """The bottleneck at the level with the highest throughput, and how certain it is."""
    top = sweep.best
    station = busiest(top, sweep)
    if station is None:
        return ""
    at = f"at {sweep.factor} = {top.value:g}, where throughput is highest"
    if station.utilisation < BUSY:
        return (
            f"There is no bottleneck {at}: {station.name} has the highest utilisation, "
            f"{station.utilisation:.0%}. A middleware has {_calls_under_way(top):.2f} calls of all kinds in "
            "flight in the mean. Near 1, the calls themselves are the limit, because quick calls follow one "
            "another. Otherwise operations wait for something else, such as messages of other clients."
        )
    return f"The bottleneck {at}, is {station.name}, with a utilisation of {station.utilisation:.0%}."


def _calls_under_way(level: Level) -> float:
    """The mean number of concurrent calls of a middleware, of all batched kinds."""
    return level.value_of(
        lambda run: (
            sum(calls.busy for kind, calls in run.calls.items() if kind != "single")
            / run.settings.middlewares
        )
    )


def _phases_by_kind(sweep: Sweep) -> Figures:
    fields = (
        Field("level", sweep.factor, Kind.RATIO),
        Field("kind", "kind", Kind.TEXT),
        Field("followed", "requests sampled", Kind.COUNT),
        *PHASE_FIELDS,
    )
    rows: list[Row] = []
    for level in sweep.levels:
        for kind in sorted({kind for run in level.runs for kind in run.phases}):
            runs = [run.phases[kind] for run in level.runs if kind in run.phases]
            means = [fmean(run[f"{name}_s"] for run in runs) for name in PHASES]
            followed = int(sum(run["followed"] for run in runs))
            rows.append((level.value, kind, followed, *means, fmean(run["batch"] for run in runs)))
    return figures_of("phases-by-kind", fields, rows)


def _processor_s(tier: str) -> Callable[[Measured], float]:
    return lambda run: run.processors.get(tier, 0.0) / run.messages_per_s if run.messages_per_s else 0.0


def _phase(name: str) -> Callable[[Measured], float]:
    return lambda run: run.phase_s[name]


def _batch(run: Measured) -> float:
    """Requests in a call, over all batched calls."""
    gathered = [calls for kind, calls in run.calls.items() if kind != "single"]
    calls = sum(each.calls for each in gathered)
    return sum(each.requests for each in gathered) / calls if calls else 0.0
