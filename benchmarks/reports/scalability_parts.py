"""The sections of the report on scalability, for one sweep each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from telesto.benchmarks.reports import network_model, scalability_plots
from telesto.benchmarks.reports.closed_system import Bounds, deviation, response_by_law
from telesto.benchmarks.reports.repetitions import Mean
from telesto.benchmarks.reports.scalability_law import Scalability, Undetermined, fit
from telesto.benchmarks.reports.scalability_plots import Panel
from telesto.benchmarks.reports.section import Field, Figures, Kind, Row, Section, duration, three_digits
from telesto.benchmarks.reports.stations import Queue, Station
from telesto.benchmarks.reports.sweep import TIERS, Level, Measured, Sweep
from telesto.benchmarks.reports.sweep_frames import PHASES

US_PER_S: Final = 1e6
MS_PER_S: Final = 1e3
BUSY: Final = 0.85
"""A station that is used so much makes others wait: it limits."""
LAW_TOLERANCE: Final = 0.05
"""By so much the response-time law may be missed without a remark."""
CUSTOMERS: Final = "clients"
"""The factor that the Universal Scalability Law is about."""
PERCENTILES: Final = {"p50": "p50_s", "p90": "p90_s", "p99": "p99_s"}
PHASE_NAMES: Final = {
    "parse": "reading the request",
    "fifo": "in line",
    "database": "in calls",
    "parked": "waiting for a message",
    "answer": "answering",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a sweep ends: its bounds, and the station that comes nearest to its limit."""

    bounds: Bounds
    station: Station
    level: float


def sections_of(sweep: Sweep, prefix: str, group: str) -> list[Section]:
    """All sections of a sweep.

    Args:
        sweep: what.
        prefix: of the names of its figures.
        group: the heading that they stand under.
    """
    makers: list[Callable[[Sweep], Section | None]] = [throughput_part]
    if sweep.closed and sweep.factor == CUSTOMERS:
        makers.append(law_part)
    makers += [stations_part, processors_part, phases_part]
    if sweep.closed:
        makers += [response_law_part, model_part]
    found = [made for make in makers if (made := make(sweep)) is not None]
    return [_placed(section, prefix, group) for section in found]


def limits_of(sweep: Sweep) -> Limits | None:
    """The bounds of a closed system, from the level with most throughput; None where nothing is known.

    D_max is that of the processors, middleware loops and load generators; calls are left out, for they take
    more requests at a time when there are more. D is the response time at the lowest level, so what waiting
    there is at that level is in it.
    """
    top = max(sweep.levels, key=lambda level: level.value_of(_messages))
    stations = [
        station for station in _stations(top, sweep) if not station.name.startswith(network_model.CALLS)
    ]
    if not stations or max(station.busy for station in stations) <= 0:
        return None
    station = max(stations, key=lambda each: each.utilisation)
    think_s = fmean(run.settings.think_ms for run in sweep.levels[0].runs) / MS_PER_S
    demand_s = min(level.value_of(_response) for level in sweep.levels)
    return Limits(Bounds(demand_s, 1 / station.limit_per_s, think_s), station, top.value)


def busiest(level: Level, sweep: Sweep) -> Station | None:
    """The station of a level of which most is used."""
    return max(_stations(level, sweep), key=lambda station: station.utilisation, default=None)


def fitted(sweep: Sweep) -> Scalability | Undetermined:
    """The Universal Scalability Law of a sweep over clients, from every repetition."""
    runs = [run for level in sweep.levels for run in level.runs]
    return fit([run.customers for run in runs], [run.messages_per_s for run in runs])


def throughput_part(sweep: Sweep) -> Section:
    """Throughput and response time over the factor, with intervals, laws and bounds."""
    knee, curves, response_curves = None, {}, {}
    per_customer = _per_clients(sweep)
    share = _messages_per_operation(sweep)
    limits = limits_of(sweep) if sweep.closed and sweep.factor == CUSTOMERS else None
    if limits is not None:
        bounds = limits.bounds
        knee = bounds.knee / per_customer
        curves["asymptotic bounds"] = lambda at: bounds.throughput_at_most(at * per_customer) * share
        response_curves["asymptotic bounds"] = lambda at: bounds.response_at_least(at * per_customer)
    law = fitted(sweep) if sweep.closed and sweep.factor == CUSTOMERS else None
    if isinstance(law, Scalability):
        curves["scalability law"] = lambda at: law.throughput(at * per_customer)
    if sweep.open and sweep.factor == "rate":
        response_curves |= _open_model(sweep)
    times = {"mean": _response, **{name: _percentile(key) for name, key in PERCENTILES.items()}}
    rate_of, rate_name = (
        (_operations, "operations per second") if sweep.open else (_messages, "messages per second")
    )
    if sweep.open and sweep.factor == "rate":
        curves["offered"] = lambda at: at
    panels = [
        Panel(rate_name, {"measured": _means(sweep, rate_of)}, _singles(sweep, rate_of), curves),
        Panel(
            "response time",
            {name: _means(sweep, of) for name, of in times.items()},
            _singles(sweep, _response),
            response_curves,
            times=True,
            logarithmic=True,
        ),
    ]
    return Section(
        "Latency against offered load" if sweep.open else "Throughput and response time",
        _throughput_meaning(sweep),
        _throughput_figures(sweep),
        scalability_plots.over_factor("throughput", sweep.factor, sweep.values, panels, knee),
        _throughput_caption(sweep, limits, law),
    )


def law_part(sweep: Sweep) -> Section:
    """The coefficients of the Universal Scalability Law."""
    fields = (
        Field("coefficient", "coefficient", Kind.TEXT),
        Field("value", "value", Kind.RATIO),
        Field("low", "from", Kind.RATIO),
        Field("high", "to", Kind.RATIO),
        Field("meaning", "what it is", Kind.TEXT),
    )
    meaning = (
        "X(N) = λN / (1 + σ(N - 1) + κN(N - 1)) over the places of clients, by least squares "
        "of relative errors."
    )
    law = fitted(sweep)
    if isinstance(law, Undetermined):
        return Section(
            "Scalability law", f"{meaning} There is no fit: {law.reason}.", _figures("law", fields, [])
        )
    told = (
        ("λ", law.single, "messages per second of one client alone"),
        ("σ", law.contention, "share that waits for others (contention)"),
        ("κ", law.coherency, "cost of each pair's agreement (coherency)"),
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
        peak = "Neither σ nor κ is told from 0: within these levels no limit is proven."
    left = f"It leaves {law.unexplained:.1%} of the variation unexplained. Intervals are of 95 %."
    return Section("Scalability law", f"{meaning} {peak} {left}", _figures("law", fields, rows))


def stations_part(sweep: Sweep) -> Section:
    """How busy each station is, and what it could serve at most."""
    fields = (
        Field("level", sweep.factor, Kind.RATIO),
        Field("station", "station", Kind.TEXT),
        Field("servers", "servers", Kind.COUNT),
        Field("utilisation", "utilisation", Kind.SHARE),
        Field("demand_s", "demand of an operation", Kind.SECONDS),
        Field("limit_per_s", "operations per second at most", Kind.RATIO),
    )
    series: dict[str, list[float]] = {}
    rows: list[Row] = []
    for level in sweep.levels:
        for station in _stations(level, sweep):
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
        _figures("stations", fields, rows),
        scalability_plots.lines("stations", sweep.factor, sweep.values, whole, "busy"),
        _limiting(sweep),
        folded=True,
    )


def processors_part(sweep: Sweep) -> Section:
    """Processor time of a message, by tier."""
    fields = (
        Field("level", sweep.factor, Kind.RATIO),
        *(Field(f"{tier}_s", tier, Kind.SECONDS) for tier in TIERS),
        Field("all_s", "all", Kind.SECONDS),
        Field("processors", "processors in use", Kind.RATIO),
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
        _figures("processors", fields, rows),
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
    fields = (
        Field("level", sweep.factor, Kind.RATIO),
        *(Field(f"{name}_s", PHASE_NAMES[name], Kind.SECONDS) for name in PHASES),
        Field("batch", "requests in a call", Kind.RATIO),
    )
    parts = {name: [level.value_of(_phase(name)) for level in sweep.levels] for name in PHASES}
    batches = [level.value_of(_batch) for level in sweep.levels]
    rows = [(level, *(parts[name][i] for name in PHASES), batches[i]) for i, level in enumerate(sweep.values)]
    largest = max((name for name in PHASES if name != "parked"), key=lambda name: parts[name][-1])
    return Section(
        "Phases of a request",
        "How long a request is where in the middleware, in the mean of those that were followed, of "
        "all kinds.",
        _figures("phases", fields, rows),
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


def response_law_part(sweep: Sweep) -> Section:
    """The response-time law as a check of the measurements."""
    fields = (
        Field("level", sweep.factor, Kind.RATIO),
        Field("customers", "places of clients", Kind.COUNT),
        Field("operations_per_s", "operations per second", Kind.RATIO),
        Field("measured_s", "measured", Kind.SECONDS),
        Field("by_law_s", "N / X - Z", Kind.SECONDS),
        Field("deviation", "measured against law", Kind.CHANGE),
    )
    rows: list[Row] = []
    worst = (0.0, 0.0, sweep.values[0])
    for level in sweep.levels:
        settings = level.runs[0].settings
        rate, measured = level.value_of(_operations), level.value_of(_response)
        by_law = level.value_of(
            lambda run: response_by_law(run.customers, run.operations_per_s, run.settings.think_ms / MS_PER_S)
        )
        customers = settings.clients * settings.in_flight
        off = deviation(measured, by_law)
        rows.append((level.value, customers, rate, measured, by_law, off))
        worst = max(worst, (abs(off), off, level.value))
    size, off, at = worst
    verdict = (
        f"It holds within {size:.1%}: latencies and throughput were measured alike."
        if size <= LAW_TOLERANCE
        else f"At {sweep.factor} = {at:g} it is missed by {off:+.1%}: clients spend that time outside of "
        "requests (their own processor time between an answer and the next request, reads that ended "
        "without a message), or operations that began before the time that counts are in it."
    )
    meaning = (
        "In a closed system R = N / X - Z must hold, whatever is inside: operations are those "
        "in which a client waits."
    )
    return Section("Response-time law", f"{meaning} {verdict}", _figures("response-law", fields, rows))


def model_part(sweep: Sweep) -> Section:
    """What a network of queues predicts for all levels from one of them."""
    fields = (
        Field("level", sweep.factor, Kind.RATIO),
        Field("measured_per_s", "measured, messages/s", Kind.RATIO),
        Field("predicted_per_s", "predicted", Kind.RATIO),
        Field("throughput_error", "off by", Kind.CHANGE),
        Field("measured_s", "measured, response", Kind.SECONDS),
        Field("predicted_s", "predicted", Kind.SECONDS),
        Field("response_error", "off by", Kind.CHANGE),
        Field("reason", "where they differ most", Kind.TEXT),
    )
    title = "Model against measurement"
    if (reason := network_model.why_not(sweep)) is not None:
        return Section(title, f"There is no model here: {reason}.", _figures("model", fields, []))
    demands = network_model.demands_of(network_model.chosen_level(sweep))
    compared = network_model.compare(sweep, demands)
    rates, times = _means(sweep, _messages), _means(sweep, _response)
    rows: list[Row] = [
        (
            each.level, rate.mean, each.messages_per_s, each.throughput_error,
            time.mean, each.predicted.response_s, each.response_error, each.reason,
        )
        for each, rate, time in zip(compared, rates, times, strict=True)
    ]  # fmt: skip
    panels = [
        Panel(
            "messages per second",
            {"measured": rates},
            _singles(sweep, _messages),
            steps={"model": [each.messages_per_s for each in compared]},
        ),
        Panel(
            "response time",
            {"measured": times},
            _singles(sweep, _response),
            steps={"model": [each.predicted.response_s for each in compared]},
            times=True,
            logarithmic=True,
        ),
    ]
    calls = "; ".join(
        f"a call of {call.kind} with n requests {duration(call.alone_s)} + {duration(call.each_s)} n, "
        f"{call.visits:.2f} requests an operation"
        for call in demands.calls
    )
    worst = max(compared, key=lambda each: abs(each.throughput_error))
    return Section(
        title,
        "A closed network, solved exactly (as by mean value analysis), with what was measured at "
        f"{sweep.factor} = "
        f"{demands.level:g}: {duration(demands.processors_s)} of {sweep.processors} processors "
        "outside of PostgreSQL, "
        f"{duration(demands.parked_s)} waiting for messages, and {calls}.",
        _figures("model", fields, rows),
        scalability_plots.over_factor("model", sweep.factor, sweep.values, panels),
        f"The model is off by {worst.throughput_error:+.0%} at most ({sweep.factor} = "
        f"{worst.level:g}; {worst.reason}). "
        "It does not know that PostgreSQL takes processors from the others, nor who waits for whose message.",
    )


def _throughput_meaning(sweep: Sweep) -> str:
    if sweep.open:
        return (
            "Requests were sent at given moments, whatever the service did; response time counts from these. "
            "Where fewer operations were done than offered, the service is beyond its capacity."
        )
    return (
        "Messages handed over a second (put, where nobody reads), and the time from sending to the "
        "answer. Bars are "
        "the intervals of 95 % over independent repetitions; pale points are single runs."
    )


def _throughput_caption(sweep: Sweep, limits: Limits | None, law: Scalability | Undetermined | None) -> str:
    best = max(sweep.levels, key=lambda level: level.value_of(_messages))
    said = [f"The most is {three_digits(best.value_of(_messages))} messages per second at {best.value:g}."]
    if limits is not None:
        per = _per_clients(sweep)
        dotted = " (dotted)" if sweep.values[0] <= limits.bounds.knee / per <= sweep.values[-1] else ""
        said.append(
            f"Bounds: nobody waits below the knee at {limits.bounds.knee / per:.3g} clients{dotted}, and "
            f"{limits.station.name} allow "
            f"{three_digits(limits.bounds.capacity_per_s * _messages_per_operation(sweep))}"
            f" messages per second, with what a message needed at {limits.level:g}."
        )
    if isinstance(law, Undetermined):
        said.append(f"The scalability law is not drawn: {law.reason}.")
    if sweep.open and sweep.factor == "rate":
        said.append(
            "M/M/m is drawn as far as it has a steady state, with what the lowest level needs of processors."
        )
    if any(len(level.runs) < 2 for level in sweep.levels):
        said.append("Levels with one repetition have no interval.")
    return " ".join(said)


def _throughput_figures(sweep: Sweep) -> Figures:
    fields = (
        Field("level", sweep.factor, Kind.RATIO),
        Field("repetitions", "runs", Kind.COUNT),
        Field("messages_per_s", "messages/s", Kind.RATIO),
        Field("messages_per_s_low", "from", Kind.RATIO),
        Field("messages_per_s_high", "to", Kind.RATIO),
        Field("operations_per_s", "operations/s", Kind.RATIO, on_page=sweep.open),
        Field("response_s", "response time", Kind.SECONDS),
        Field("response_s_low", "from", Kind.SECONDS),
        Field("response_s_high", "to", Kind.SECONDS),
        *(Field(key, name, Kind.SECONDS) for name, key in PERCENTILES.items()),
        Field("late", "sent late", Kind.COUNT, on_page=sweep.open),
        Field("unsent", "not sent", Kind.COUNT, on_page=sweep.open),
    )
    rows: list[Row] = []
    for level in sweep.levels:
        rate, time = level.mean(_messages), level.mean(_response)
        percentiles = (level.value_of(_percentile(key)) for key in PERCENTILES.values())
        late, unsent = sum(run.late for run in level.runs), sum(run.unsent for run in level.runs)
        rows.append(
            (
                level.value, rate.count, rate.mean, _least(rate), rate.high, level.value_of(_operations),
                time.mean, _least(time), time.high, *percentiles, late, unsent,
            )
        )  # fmt: skip
    return _figures("throughput", fields, rows)


def _least(mean: Mean) -> float | None:
    """The lower end of an interval of what cannot be negative."""
    return None if mean.low is None else max(mean.low, 0.0)


def _open_model(sweep: Sweep) -> dict[str, Callable[[float], float]]:
    """M/M/m of the processors, with the demand of the lowest level; what else it took is added."""
    lowest = sweep.levels[0]
    found = [station for station in _stations(lowest, sweep) if station.name == network_model.PROCESSORS]
    if not found or found[0].busy <= 0:
        return {}
    service, servers = found[0].demand_s, found[0].servers
    arrivals = lowest.value_of(_operations)
    rest = max(0.0, lowest.value_of(_response) - Queue(arrivals, service, servers).response_s)

    def response(at: float) -> float:
        queue = Queue(at, service, servers)
        return rest + queue.response_s if queue.stable else float("nan")

    return {"M/M/m": response}


def _limiting(sweep: Sweep) -> str:
    """The station that limits at the level with most throughput, and how sure that is."""
    top = max(sweep.levels, key=lambda level: level.value_of(_messages))
    station = busiest(top, sweep)
    if station is None:
        return ""
    at = f"at {sweep.factor} = {top.value:g}, where throughput is greatest"
    if station.utilisation < BUSY:
        return (
            f"No station is busy {at}: of {station.name} {station.utilisation:.0%} are in use. "
            "Operations wait for "
            "something else, such as messages of others, or for more requests to come."
        )
    return f"What limits {at}, is {station.name}, of which {station.utilisation:.0%} are in use."


def _phases_by_kind(sweep: Sweep) -> Figures:
    fields = (
        Field("level", sweep.factor, Kind.RATIO),
        Field("kind", "kind", Kind.TEXT),
        Field("followed", "requests followed", Kind.COUNT),
        *(Field(f"{name}_s", PHASE_NAMES[name], Kind.SECONDS) for name in PHASES),
        Field("batch", "requests in a call", Kind.RATIO),
    )
    rows: list[Row] = []
    for level in sweep.levels:
        for kind in sorted({kind for run in level.runs for kind in run.phases}):
            runs = [run.phases[kind] for run in level.runs if kind in run.phases]
            means = [fmean(run[f"{name}_s"] for run in runs) for name in PHASES]
            followed = int(sum(run["followed"] for run in runs))
            rows.append((level.value, kind, followed, *means, fmean(run["batch"] for run in runs)))
    return _figures("phases-by-kind", fields, rows)


def _stations(level: Level, sweep: Sweep) -> list[Station]:
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


def _means(sweep: Sweep, of: Callable[[Measured], float]) -> list[Mean]:
    return [level.mean(of) for level in sweep.levels]


def _singles(sweep: Sweep, of: Callable[[Measured], float]) -> list[list[float]]:
    return [[of(run) for run in level.runs] for level in sweep.levels]


def _messages(run: Measured) -> float:
    return run.messages_per_s


def _operations(run: Measured) -> float:
    return run.operations_per_s


def _response(run: Measured) -> float:
    return run.response_s["mean_s"]


def _percentile(key: str) -> Callable[[Measured], float]:
    return lambda run: run.response_s[key]


def _processor_s(tier: str) -> Callable[[Measured], float]:
    return lambda run: run.processors.get(tier, 0.0) / run.messages_per_s if run.messages_per_s else 0.0


def _phase(name: str) -> Callable[[Measured], float]:
    return lambda run: run.phase_s[name]


def _batch(run: Measured) -> float:
    """Requests in a call, over all calls that are gathered."""
    gathered = [calls for kind, calls in run.calls.items() if kind != "single"]
    calls = sum(each.calls for each in gathered)
    return sum(each.requests for each in gathered) / calls if calls else 0.0


def _per_clients(sweep: Sweep) -> float:
    """Customers that a client stands for."""
    settings = sweep.levels[0].runs[0].settings
    return float(settings.in_flight)


def _messages_per_operation(sweep: Sweep) -> float:
    return fmean(run.messages_per_s / run.operations_per_s for level in sweep.levels for run in level.runs)


def _figures(key: str, fields: Sequence[Field], rows: Sequence[Row]) -> Figures:
    return Figures(key, tuple(fields), tuple(rows), len(rows))


def _placed(section: Section, prefix: str, group: str) -> Section:
    """The section with names that no other sweep has, under its heading."""

    def named(figures: Figures) -> Figures:
        return Figures(f"{prefix}-{figures.key}", figures.fields, figures.rows, figures.total)

    return Section(
        section.title,
        section.meaning,
        named(section.figures),
        # Ids within the plots of a page are shared.
        _unshared(section.plot, prefix),
        section.caption,
        section.folded,
        tuple(named(each) for each in section.more),
        group,
    )


def _unshared(plot: str | None, prefix: str) -> str | None:
    """A plot whose ids begin with the sweep's name: two plots of one kind have the same otherwise."""
    if plot is None:
        return None
    return re.sub(r'(\bid="|url\(#|href="#)', lambda found: f"{found[1]}{prefix}-", plot)
