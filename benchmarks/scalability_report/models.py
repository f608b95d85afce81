"""Sections that set laws beside measurements: the response-time law, and a network of queues."""

from __future__ import annotations

from typing import Final

from telesto.benchmarks.analysis.closed_system import deviation, response_by_law
from telesto.benchmarks.pages.section import Field, Kind, Row, Section, duration
from telesto.benchmarks.scalability_report import network_model
from telesto.benchmarks.scalability_report import plots as scalability_plots
from telesto.benchmarks.scalability_report.plots import Panel
from telesto.benchmarks.scalability_report.sweep import Sweep
from telesto.benchmarks.scalability_report.sweep_values import (
    figures_of,
    means_of,
    messages,
    operations,
    response,
    singles_of,
)

MS_PER_S: Final = 1e3
LAW_TOLERANCE: Final = 0.05
"""By so much the response-time law may be missed without a remark."""


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
        rate, measured = level.value_of(operations), level.value_of(response)
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
    return Section("Response-time law", f"{meaning} {verdict}", figures_of("response-law", fields, rows))


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
        return Section(title, f"There is no model here: {reason}.", figures_of("model", fields, []))
    demands = network_model.demands_of(network_model.chosen_level(sweep))
    compared = network_model.compare(sweep, demands)
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
        "A closed network, solved exactly (as by mean value analysis), with what was measured at "
        f"{sweep.factor} = "
        f"{demands.level:g}: {duration(demands.processors_s)} of {sweep.processors} processors "
        "outside of PostgreSQL, "
        f"{duration(demands.parked_s)} waiting for messages, and {calls}.",
        figures_of("model", fields, rows),
        scalability_plots.over_factor("model", sweep.factor, sweep.values, panels),
        f"The model is off by {worst.throughput_error:+.0%} at most ({sweep.factor} = "
        f"{worst.level:g}; {worst.reason}). "
        "It does not know that PostgreSQL takes processors from the others, that quick calls of different "
        "kinds follow one another, nor who waits for whose message.",
    )
