"""Laws compared with measurements: the response-time law, and the service as a closed network of queues.

The network has the demands that were measured at one level of a sweep. Its stations are the processors (with
the usage of clients and middlewares; PostgreSQL's usage is in the calls), and the calls of each kind of
request. Requests that wait together go in one call: with n of them there, a worker takes those that came
during its last call, which are half of them, and the call takes S(n) = a + b n. So such a station becomes
faster with more customers. Reads that wait for a message spend time without a station.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from telesto.benchmarks.analysis.network import Pace, Prediction, Server, Values, solve
from telesto.benchmarks.analysis.queueing import deviation, response_by_law
from telesto.benchmarks.load.settings import RunSettings
from telesto.benchmarks.pages.section import Kind, Row, Section, columns, duration, figures_of
from telesto.benchmarks.scalability_report import plots as scalability_plots
from telesto.benchmarks.scalability_report.plots import Panel
from telesto.benchmarks.scalability_report.sweep import (
    ON_THE_WAY,
    Level,
    Measured,
    Sweep,
    means_of,
    messages,
    operations,
    response,
    singles_of,
    workers_of,
)

FACTORS: Final = ("clients", "in_flight", "think_ms", "middlewares", "workers", "pool_size")
"""Factors whose effect the model knows; others change the demands themselves."""
CUSTOMERS_MAX: Final = 4000
"""With more customers the model takes minutes."""
GOOD_ERROR: Final = 0.10
"""A prediction with a smaller error needs no explanation."""
MS_PER_S: Final = 1000.0
PROCESSORS: Final = "processors"
PARKED: Final = "waiting for a message"
CALLS: Final = "calls"


@dataclass(frozen=True, slots=True)
class CallDemand:
    """Calls of one kind: their requests for each operation, and the straight line of a call's length."""

    kind: str
    visits: float
    alone_s: float
    each_s: float

    def length_s(self, requests: float | Values) -> float | Values:
        """S(n)."""
        return self.alone_s + self.each_s * requests


@dataclass(frozen=True, slots=True)
class Demands:
    """What one operation needs, as measured at one level.

    Attributes:
        processors_s: processor time of clients and middlewares.
        parked_s: waiting for messages.
        calls: of the kinds of requests for which clients wait.
    """

    level: float
    processors_s: float
    parked_s: float
    calls: tuple[CallDemand, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A prediction and its relative errors; `reason` explains them as far as the measurements can."""

    level: float
    predicted: Prediction
    messages_per_s: float
    throughput_error: float
    response_error: float
    reason: str


def why_not(sweep: Sweep) -> str | None:
    """Why there is no model of a sweep; None if there can be one."""
    if not sweep.closed:
        return "the model is for closed systems, in which every client waits for its answer"
    if sweep.factor not in FACTORS:
        return (
            f"{sweep.factor} changes what an operation needs, and the model knows the needs at one level only"
        )
    if sweep.processors is None:
        return "the experiment does not say how many processors the machine has"
    if any(not run.calls or not run.phases for level in sweep.levels for run in level.runs):
        return "runs have no metrics or phases in the measured part (phase_every = 0, or too short)"
    if max(run.customers for level in sweep.levels for run in level.runs) > CUSTOMERS_MAX:
        return f"there are more than {CUSTOMERS_MAX:,} customers"
    return None


def chosen_level(sweep: Sweep) -> Level:
    """The level whose demands the model uses: the middle one."""
    return sweep.levels[len(sweep.levels) // 2]


def demands_of(level: Level) -> Demands:
    """What an operation needs, from the measurements of one level."""
    kinds = sorted({kind for run in level.runs for kind in run.calls if kind in ON_THE_WAY})
    return Demands(
        level.value,
        processors_s=level.value_of(_processors_s),
        parked_s=level.value_of(lambda run: _phase_s(run, "parked_s")),
        calls=tuple(_call_demand(level, kind) for kind in kinds),
    )


def compare(sweep: Sweep, demands: Demands) -> list[Compared]:
    """Predict every level with the demands of one, and compare the predictions with the measurements."""
    return [_compared(level, demands, sweep.processors or 1) for level in sweep.levels]


def predict(demands: Demands, settings: RunSettings, processors: int) -> Prediction:
    """The model's prediction for a run with these settings."""
    stations = [
        Server.of_servers(PROCESSORS, demands.processors_s, processors),
        Server.delay(PARKED, demands.parked_s),
    ]
    for call in demands.calls:
        workers = settings.middlewares * workers_of(settings, call.kind)
        alone = float(call.length_s(1.0))
        stations.append(Server(f"{CALLS}: {call.kind}", call.visits * alone, _gathering(call, workers)))
    return solve(stations, settings.clients * settings.in_flight, settings.think_ms / MS_PER_S)


def _gathering(call: CallDemand, workers: int) -> Pace:
    """The relative throughput of the station with n requests there."""

    def pace(n: Values) -> Values:
        busy = np.minimum(n, workers)
        batch = np.maximum(1.0, n / busy / 2)
        quicker: Values = busy * batch * call.length_s(1.0) / call.length_s(batch)
        return quicker

    return pace


def _call_demand(level: Level, kind: str) -> CallDemand:
    runs = [run for run in level.runs if kind in run.calls]
    visits = fmean(run.calls[kind].requests / run.operations_per_s for run in runs)
    calls = [run.calls[kind] for run in runs]
    mean_s = fmean(of_run.busy / of_run.calls if of_run.calls else 0.0 for of_run in calls)
    lines = [of_run for of_run in calls if of_run.alone_s is not None and of_run.each_s is not None]
    alone = fmean(line.alone_s or 0.0 for line in lines) if lines else 0.0
    each = fmean(line.each_s or 0.0 for line in lines) if lines else 0.0
    if alone <= 0 or each < 0:
        # The sampled calls have too few sizes to fit a line: assume that all are equally long.
        alone, each = mean_s, 0.0
    return CallDemand(kind, visits, alone, each)


def _compared(level: Level, demands: Demands, processors: int) -> Compared:
    predicted = predict(demands, level.runs[0].settings, processors)
    share = level.value_of(lambda run: run.messages_per_s / run.operations_per_s)
    throughput_error = deviation(predicted.throughput_per_s, level.value_of(operations))
    return Compared(
        level.value,
        predicted,
        predicted.throughput_per_s * share,
        throughput_error,
        deviation(predicted.response_s, level.value_of(response)),
        _reason(level, demands, predicted, throughput_error),
    )


def _reason(level: Level, demands: Demands, predicted: Prediction, error: float) -> str:
    """The part of the response time in which prediction and measurement differ most."""
    if abs(error) <= GOOD_ERROR:
        return "within 10 %"
    by_calls = sum(time for name, time in predicted.residence_s.items() if name.startswith(CALLS))
    measured_parts: dict[str, Callable[[Measured], float]] = {
        "waiting for the database and in its calls": _calls_s,
        PARKED: lambda run: _phase_s(run, "parked_s"),
        "outside of calls and waiting": _elsewhere_s,
    }
    model = (by_calls, predicted.residence_s.get(PARKED, 0.0), predicted.residence_s.get(PROCESSORS, 0.0))
    parts = [
        (name, level.value_of(of), by_model)
        for (name, of), by_model in zip(measured_parts.items(), model, strict=True)
    ]
    name, measured, by_model = max(parts, key=lambda part: abs(part[1] - part[2]))
    text = f"{name}: {duration(max(measured, 0.0))} of an operation, and {duration(by_model)} in the model"
    change = deviation(level.value_of(_processors_s), demands.processors_s)
    if abs(change) > GOOD_ERROR:
        text += f"; processor time of an operation {change:+.0%} against level {demands.level:g}"
    return text


def _processors_s(run: Measured) -> float:
    """Processor seconds of an operation outside of PostgreSQL."""
    return sum(used for tier, used in run.processors.items() if tier != "postgres") / run.operations_per_s


def _phase_s(run: Measured, *names: str) -> float:
    """Seconds of an operation in these phases, for the kinds for which clients wait.

    A request that is tried again counts in every call, and its phases include all its tries.
    """
    return sum(
        run.phases[kind][name] * calls.requests / run.phases[kind]["tries"] / run.operations_per_s
        for kind, calls in run.calls.items()
        if kind in ON_THE_WAY and kind in run.phases
        for name in names
    )


def _calls_s(run: Measured) -> float:
    return _phase_s(run, "fifo_s", "database_s")


def _elsewhere_s(run: Measured) -> float:
    return run.response_s["mean_s"] - _phase_s(run, "fifo_s", "database_s", "parked_s")


LAW_TOLERANCE: Final = 0.05
"""A smaller deviation from the response-time law is not remarked."""


def response_law_part(sweep: Sweep) -> Section:
    """The response-time law as a check of the measurements."""
    fields = (
        *columns(Kind.RATIO, level=sweep.factor),
        *columns(Kind.COUNT, customers="places of clients"),
        *columns(Kind.RATIO, operations_per_s="operations per second"),
        *columns(Kind.SECONDS, measured_s="measured", by_law_s="N / X - Z"),
        *columns(Kind.CHANGE, deviation="measured against law"),
    )
    rows: list[Row] = []
    worst = (0.0, 0.0, sweep.values[0])
    for level in sweep.levels:
        rate, measured = level.value_of(operations), level.value_of(response)
        by_law = level.value_of(
            lambda run: response_by_law(run.customers, run.operations_per_s, run.settings.think_ms / MS_PER_S)
        )
        off = deviation(measured, by_law)
        rows.append((level.value, level.runs[0].customers, rate, measured, by_law, off))
        worst = max(worst, (abs(off), off, level.value))
    size, off, at = worst
    verdict = (
        f"It holds within {size:.1%}: the measurements of latency and throughput agree."
        if size <= LAW_TOLERANCE
        else f"At {sweep.factor} = {at:g} the deviation is {off:+.1%}: clients spend that time outside of "
        "requests (their own processor time between an answer and the next request, reads that ended "
        "without a message), or some operations began before the measured part."
    )
    meaning = "Every closed system obeys R = N / X - Z. Operations are those in which a client waits."
    return Section("Response-time law", f"{meaning} {verdict}", figures_of("response-law", fields, rows))


def model_part(sweep: Sweep) -> Section:
    """The predictions of a network of queues for all levels, from one of them."""
    fields = (
        *columns(
            Kind.RATIO, level=sweep.factor, measured_per_s="measured, messages/s", predicted_per_s="predicted"
        ),
        *columns(Kind.CHANGE, throughput_error="off by"),
        *columns(Kind.SECONDS, measured_s="measured, response", predicted_s="predicted"),
        *columns(Kind.CHANGE, response_error="off by"),
        *columns(Kind.TEXT, reason="where they differ most"),
    )
    title = "Model against measurement"
    if (reason := why_not(sweep)) is not None:
        return Section(title, f"There is no model here: {reason}.", figures_of("model", fields, []))
    demands = demands_of(chosen_level(sweep))
    compared = compare(sweep, demands)
    rates, times = means_of(sweep, messages), means_of(sweep, response)
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
            singles_of(sweep, messages),
            steps={"model": [each.messages_per_s for each in compared]},
        ),
        Panel(
            "response time",
            {"measured": times},
            singles_of(sweep, response),
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
        "A closed network, solved exactly (as by mean value analysis), with the measurements at "
        f"{sweep.factor} = {demands.level:g}: {duration(demands.processors_s)} of {sweep.processors} "
        f"processors outside PostgreSQL, {duration(demands.parked_s)} waiting for messages, and {calls}.",
        figures_of("model", fields, rows),
        scalability_plots.over_factor("model", sweep.factor, sweep.values, panels),
        f"The largest error of the model is {worst.throughput_error:+.0%} ({sweep.factor} = {worst.level:g}; "
        f"{worst.reason}). The model ignores that PostgreSQL takes processors from the other tiers, that "
        "quick calls of different kinds follow one another, and that clients wait for each other's messages.",
    )
