"""Sections on what is busy: stations, processors by tier, and phases of a request."""

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
"""A station that is used so much makes others wait: it limits."""
PHASE_NAMES: Final = {
    "parse": "reading the request",
    "fifo": "in line",
    "database": "in calls",
    "parked": "waiting for a message",
    "answer": "answering",
}
PHASE_FIELDS: Final = (
    *columns(Kind.SECONDS, **{f"{name}_s": PHASE_NAMES[name] for name in PHASES}),
    *columns(Kind.RATIO, batch="requests in a call"),
)


def busiest(level: Level, sweep: Sweep) -> Station | None:
    """The station of a level of which most is used."""
    return max(stations_of(level, sweep), key=lambda station: station.utilisation, default=None)


def stations_part(sweep: Sweep) -> Section:
    """How busy each station is, and what it could serve at most."""
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
        "Of each station, which share of its servers was busy (utilisation law, U = XD / m). Calls "
        "wait for locks "
        "and disks too: a station of calls that is full has its middleware gather more requests into "
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
            "microseconds of a message",
        ),
        f"At {sweep.factor} = {sweep.values[-1]:g} a message takes {duration(sums[-1])} of "
        f"processors, {change:+.0%} "
        f"against {sweep.values[0]:g}: "
        + ("what is done together is shared." if change < 0 else "nothing is saved."),
        folded=True,
    )


def phases_part(sweep: Sweep) -> Section | None:
    """Where a request is in the middleware; nothing where no request was followed."""
    if any(not run.phases for level in sweep.levels for run in level.runs):
        return None
    fields = (Field("level", sweep.factor, Kind.RATIO), *PHASE_FIELDS)
    parts = {name: [level.value_of(_phase(name)) for level in sweep.levels] for name in PHASES}
    batches = [level.value_of(_batch) for level in sweep.levels]
    rows = [(level, *(parts[name][i] for name in PHASES), batches[i]) for i, level in enumerate(sweep.values)]
    largest = max((name for name in PHASES if name != "parked"), key=lambda name: parts[name][-1])
    return Section(
        "Phases of a request",
        "How long a request is where in the middleware, in the mean of those that were followed, of "
        "all kinds.",
        figures_of("phases", fields, rows),
        scalability_plots.stacked(
            "phases",
            sweep.factor,
            sweep.values,
            {PHASE_NAMES[name]: [value * MS_PER_S for value in values] for name, values in parts.items()},
            "milliseconds of a request",
        ),
        f"At {sweep.factor} = {sweep.values[-1]:g} most of the work's time is {PHASE_NAMES[largest]} "
        f"({duration(parts[largest][-1])}); a call has {batches[-1]:.3g} requests, and at "
        f"{sweep.values[0]:g} "
        f"{batches[0]:.3g}. Reads that wait for a message cost nothing meanwhile.",
        folded=True,
        more=(_phases_by_kind(sweep),),
    )


def _limiting(sweep: Sweep) -> str:
    """The station that limits at the level with most throughput, and how sure that is."""
    top = sweep.best
    station = busiest(top, sweep)
    if station is None:
        return ""
    at = f"at {sweep.factor} = {top.value:g}, where throughput is greatest"
    if station.utilisation < BUSY:
        return (
            f"No station is busy {at}: of {station.name} {station.utilisation:.0%} are in use. "
            f"Of all kinds together {_calls_under_way(top):.2f} calls are under way in a middleware, which "
            "lets quick ones follow one another: near 1, they are what limits. Otherwise operations wait for "
            "something else, such as messages of others."
        )
    return f"What limits {at}, is {station.name}, of which {station.utilisation:.0%} are in use."


def _calls_under_way(level: Level) -> float:
    """How many calls a middleware has under way in the mean, of all kinds that are gathered."""
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
        Field("followed", "requests followed", Kind.COUNT),
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
    """Requests in a call, over all calls that are gathered."""
    gathered = [calls for kind, calls in run.calls.items() if kind != "single"]
    calls = sum(each.calls for each in gathered)
    return sum(each.requests for each in gathered) / calls if calls else 0.0
