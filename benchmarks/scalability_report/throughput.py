"""Sections on throughput and response time over a factor, with their bounds and laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from telesto.benchmarks.analysis.queueing import Bounds, Queue, Station
from telesto.benchmarks.analysis.scalability_law import Scalability, fit
from telesto.benchmarks.pages.section import (
    Field,
    Figures,
    Kind,
    Row,
    Section,
    Value,
    columns,
    figures_from,
    figures_of,
    three_digits,
)
from telesto.benchmarks.scalability_report import models
from telesto.benchmarks.scalability_report import plots as scalability_plots
from telesto.benchmarks.scalability_report.plots import Panel
from telesto.benchmarks.scalability_report.sweep import (
    Level,
    Sweep,
    customers_of_client,
    least_of,
    means_of,
    messages,
    messages_per_operation,
    operations,
    percentile,
    response,
    singles_of,
    stations_of,
)

MS_PER_S: Final = 1e3
CUSTOMERS: Final = "clients"
"""The factor of the Universal Scalability Law."""
OFFERED: Final = "rate"
"""The factor of the offered load."""
PERCENTILES: Final = {"p50": "p50_s", "p90": "p90_s", "p99": "p99_s"}


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a sweep, and the station that comes nearest to its limit."""

    bounds: Bounds
    station: Station
    level: float


def limits_of(sweep: Sweep) -> Limits | None:
    """The bounds of a closed system, from the level with the highest throughput; None if unknown.

    D_max is that of the processors, middleware loops and load generators. Calls are left out, because they
    take more requests at a time when there are more. D is the response time at the lowest level, including
    the waiting there.
    """
    top = sweep.best
    stations = [station for station in stations_of(top, sweep) if not station.name.startswith(models.CALLS)]
    if not stations or max(station.busy for station in stations) <= 0:
        return None
    station = max(stations, key=lambda each: each.utilisation)
    think_s = fmean(run.settings.think_ms for run in sweep.levels[0].runs) / MS_PER_S
    demand_s = min(level.value_of(response) for level in sweep.levels)
    return Limits(Bounds(demand_s, 1 / station.limit_per_s, think_s), station, top.value)


def fitted(sweep: Sweep) -> Scalability | str:
    """The Universal Scalability Law of a sweep over clients, from every repetition."""
    runs = [run for level in sweep.levels for run in level.runs]
    return fit([run.customers for run in runs], [run.messages_per_s for run in runs])


def throughput_part(sweep: Sweep) -> Section:
    """Throughput and response time over the factor, with intervals, laws and bounds."""
    knee, curves, response_curves = None, {}, {}
    per_customer = customers_of_client(sweep)
    share = messages_per_operation(sweep)
    limits = limits_of(sweep) if sweep.closed and sweep.factor == CUSTOMERS else None
    if limits is not None:
        bounds = limits.bounds
        knee = bounds.knee / per_customer
        curves["asymptotic bounds"] = lambda at: bounds.throughput_at_most(at * per_customer) * share
        response_curves["asymptotic bounds"] = lambda at: bounds.response_at_least(at * per_customer)
    law = fitted(sweep) if sweep.closed and sweep.factor == CUSTOMERS else None
    if isinstance(law, Scalability):
        curves["scalability law"] = lambda at: law.throughput(at * per_customer)
    if sweep.open and sweep.factor == OFFERED:
        response_curves |= _open_model(sweep)
    times = {"mean": response, **{name: percentile(key) for name, key in PERCENTILES.items()}}
    rate_of, rate_name = (
        (operations, "operations per second") if sweep.open else (messages, "messages per second")
    )
    if sweep.open and sweep.factor == OFFERED:
        curves["offered"] = lambda at: at
    panels = [
        Panel(rate_name, {"measured": means_of(sweep, rate_of)}, singles_of(sweep, rate_of), curves),
        Panel(
            "response time",
            {name: means_of(sweep, of) for name, of in times.items()},
            singles_of(sweep, response),
            response_curves,
            times=True,
            logarithmic=True,
        ),
    ]
    return Section(
        "Latency against offered load"
        if sweep.open and sweep.factor == OFFERED
        else "Throughput and response time",
        _throughput_meaning(sweep),
        _throughput_figures(sweep),
        scalability_plots.over_factor("throughput", sweep.factor, sweep.values, panels, knee),
        _throughput_caption(sweep, limits, law),
    )


def law_part(sweep: Sweep) -> Section:
    """The coefficients of the Universal Scalability Law."""
    fields = (
        *columns(Kind.TEXT, "coefficient"),
        *columns(Kind.RATIO, value="value", low="from", high="to"),
        *columns(Kind.TEXT, meaning="meaning"),
    )
    meaning = "X(N) = λN / (1 + σ(N - 1) + κN(N - 1)) over client slots, by least squares of relative errors."
    law = fitted(sweep)
    if isinstance(law, str):
        return Section("Scalability law", f"{meaning} There is no fit: {law}.", figures_of("law", fields, []))
    told = (
        ("λ", law.single, "messages per second of a single client"),
        ("σ", law.contention, "share that cannot run in parallel (contention)"),
        ("κ", law.coherency, "cost of coordination for each pair (coherency)"),
    )
    rows: list[Row] = [(name, each.value, each.low, each.high, text) for name, each, text in told]
    if law.peak is not None:
        peak = (
            f"Its peak is {three_digits(law.limit_per_s or 0)} messages per second with "
            f"{law.peak:,.0f} clients."
        )
    elif law.limit_per_s is not None:
        peak = (
            f"κ may be 0: there is no peak, and the limit is {three_digits(law.limit_per_s)} "
            "messages per second."
        )
    else:
        peak = "Neither σ nor κ differs significantly from 0: within these levels no limit is proven."
    left = f"It leaves {law.unexplained:.1%} of the variation unexplained. Intervals are of 95 %."
    return Section("Scalability law", f"{meaning} {peak} {left}", figures_of("law", fields, rows))


def _throughput_meaning(sweep: Sweep) -> str:
    if sweep.open:
        return (
            "Requests were sent on a schedule, whatever the service did; response time counts from the "
            "scheduled time. Where fewer operations were done than offered, the service is beyond its "
            "capacity."
        )
    return (
        "Messages delivered a second (put, if no client reads), and the time from sending to the answer. "
        "Bars are the 95 % intervals over independent repetitions; pale points are single runs."
    )


def _throughput_caption(sweep: Sweep, limits: Limits | None, law: Scalability | str | None) -> str:
    best = sweep.best
    said = [f"The maximum is {three_digits(best.value_of(messages))} messages per second at {best.value:g}."]
    if limits is not None:
        per = customers_of_client(sweep)
        dotted = " (dotted)" if sweep.values[0] <= limits.bounds.knee / per <= sweep.values[-1] else ""
        said.append(
            f"Bounds: no client must wait below the knee at {limits.bounds.knee / per:.3g} clients{dotted}. "
            f"The limit of {limits.station.name} is "
            f"{three_digits(limits.bounds.capacity_per_s * messages_per_operation(sweep))} messages per "
            f"second, with the demand of a message at {limits.level:g}."
        )
    if isinstance(law, str):
        said.append(f"The scalability law is not drawn: {law}.")
    if sweep.open and sweep.factor == OFFERED:
        said.append(
            "M/M/m is drawn where it has a steady state, with the processor time of an operation at the "
            "highest throughput."
        )
    if any(len(level.runs) < 2 for level in sweep.levels):
        said.append("Levels with one repetition have no interval.")
    return " ".join(said)


def _throughput_figures(sweep: Sweep) -> Figures:
    declared: dict[Field, Callable[[Level], Value]] = {
        Field("level", sweep.factor, Kind.RATIO): lambda level: level.value,
        Field("repetitions", "runs", Kind.COUNT): lambda level: len(level.runs),
        Field("messages_per_s", "messages/s", Kind.RATIO): lambda level: level.value_of(messages),
        Field("messages_per_s_low", "from", Kind.RATIO): lambda level: least_of(level.mean(messages)),
        Field("messages_per_s_high", "to", Kind.RATIO): lambda level: level.mean(messages).high,
        Field("operations_per_s", "operations/s", Kind.RATIO, sweep.open): lambda level: level.value_of(
            operations
        ),
        Field("response_s", "response time", Kind.SECONDS): lambda level: level.value_of(response),
        Field("response_s_low", "from", Kind.SECONDS): lambda level: least_of(level.mean(response)),
        Field("response_s_high", "to", Kind.SECONDS): lambda level: level.mean(response).high,
        Field("p50_s", "p50", Kind.SECONDS): lambda level: level.value_of(percentile("p50_s")),
        Field("p90_s", "p90", Kind.SECONDS): lambda level: level.value_of(percentile("p90_s")),
        Field("p99_s", "p99", Kind.SECONDS): lambda level: level.value_of(percentile("p99_s")),
        Field("late", "sent late", Kind.COUNT, sweep.open): lambda level: sum(run.late for run in level.runs),
        Field("unsent", "not sent", Kind.COUNT, sweep.open): lambda level: sum(
            run.unsent for run in level.runs
        ),
    }
    return figures_from("throughput", declared, sweep.levels)


def _open_model(sweep: Sweep) -> dict[str, Callable[[float], float]]:
    """M/M/m of the processors, with the demand at the highest load, plus the rest of the lowest response
    time."""
    lowest = sweep.levels[0]
    found = [station for station in stations_of(sweep.best, sweep) if station.name == models.PROCESSORS]
    if not found or found[0].busy <= 0:
        return {}
    service, servers = found[0].demand_s, found[0].servers
    rest = max(
        0.0, lowest.value_of(response) - Queue(lowest.value_of(operations), service, servers).response_s
    )

    def predicted(at: float) -> float:
        queue = Queue(at, service, servers)
        return rest + queue.response_s if queue.stable else float("nan")

    return {"M/M/m": predicted}
