"""The report on scalability: the runs of one or several experiments, over each factor that is a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from telesto.benchmarks.pages.page import Finding, Report
from telesto.benchmarks.pages.section import Figures, Section, three_digits
from telesto.benchmarks.run_data.runs import Runs, findings_on, open_runs, origin_of
from telesto.benchmarks.scalability_report.models import model_part, response_law_part
from telesto.benchmarks.scalability_report.stations_section import (
    BUSY,
    busiest,
    phases_part,
    processors_part,
    stations_part,
)
from telesto.benchmarks.scalability_report.sweep import STEPS, Sweep, measure, messages, percentile, sweeps_of
from telesto.benchmarks.scalability_report.throughput import CUSTOMERS, law_part, throughput_part
from telesto.benchmarks.spark.failures import explained_failures


def sections_of(sweep: Sweep, prefix: str, group: str) -> list[Section]:
    """All sections of a sweep, with a prefix for the names of figures, under a common heading."""
    makers: list[Callable[[Sweep], Section | None]] = [throughput_part]
    if sweep.closed and sweep.factor == CUSTOMERS:
        makers.append(law_part)
    makers += [stations_part, processors_part, phases_part]
    if sweep.closed:
        makers += [response_law_part, model_part]
    found = [made for make in makers if (made := make(sweep)) is not None]
    return [_placed(section, prefix, group) for section in found]


def _placed(section: Section, prefix: str, group: str) -> Section:
    """The section with unique names, under its heading."""

    def named(figures: Figures) -> Figures:
        return replace(figures, key=f"{prefix}-{figures.key}")

    return replace(
        section,
        figures=named(section.figures),
        # Ids within the plots of a page are shared: two plots of one kind would have the same.
        plot=section.plot
        and re.sub(r'(\bid="|url\(#|href="#)', lambda found: f"{found[1]}{prefix}-", section.plot),
        more=tuple(named(each) for each in section.more),
        group=group,
    )


STEPS_OF_RUNS: Final = STEPS + 1
"""How often `step` is called for each experiment."""

Step = Callable[[], None]


def scalability_report(spark: SparkSession, paths: Sequence[Path], step: Step = lambda: None) -> Report:
    """Make the report of the experiments in some directories.

    `step` is called STEPS_OF_RUNS times for each. Raises RunsError if a directory cannot be read or varies no
    numeric setting, ReportError if Spark fails.
    """
    experiments = [open_runs(path) for path in paths]
    findings: list[Finding] = []
    sections: list[Section] = []
    sweeps: list[Sweep] = []
    for runs in experiments:
        findings += findings_on(runs, named=len(experiments) > 1)
        with explained_failures():
            measured = measure(spark, runs, step)
        found, said = sweeps_of(runs, measured)
        findings += [Finding("note", each) for each in said]
        for sweep in found:
            group = f"{sweep.experiment}: {sweep.name}" if len(experiments) > 1 else sweep.name
            prefix = f"{len(sweeps) + 1}-{_plain(f'{runs.experiment.name}-{sweep.name}')}"
            sections += sections_of(sweep, prefix, group)
            sweeps.append(sweep)
        step()
    return Report(
        title="Telesto: report on scalability",
        subtitle="; ".join(f"{runs.experiment.title} ({_count(runs)})" for runs in experiments),
        summary=_summary(sweeps),
        findings=[*findings, *(_conclusion(sweep) for sweep in sweeps)],
        sections=sections,
        footer=(
            *(line for runs in experiments for line in origin_of(runs)),
            "docs/how-to/reports.md has the formulas and where they come from.",
        ),
    )


def _conclusion(sweep: Sweep) -> Finding:
    """The result of a sweep, in a sentence."""
    best = sweep.best
    most, first = best.value_of(messages), sweep.levels[0].value_of(messages)
    station = busiest(best, sweep)
    text = f"{sweep.name}: most throughput at {best.value:g}, {three_digits(most)} messages per second"
    if first and best is not sweep.levels[0]:
        text += f", {most / first:.3g} times that at {sweep.values[0]:g}"
    if station is not None:
        state = "the bottleneck" if station.utilisation >= BUSY else "no bottleneck"
        text += f"; the busiest station is {station.name} ({station.utilisation:.0%} in use), {state}"
    return Finding("note", f"{text}.")


def _summary(sweeps: Sequence[Sweep]) -> list[tuple[str, str]]:
    """The figures at the top, those of the first sweep."""
    first, best = sweeps[0], sweeps[0].best
    runs = sum(len(level.runs) for sweep in sweeps for level in sweep.levels)
    return [
        ("runs", f"{runs:,}"),
        ("curves", f"{len(sweeps):,}"),
        ("messages per second at most", three_digits(best.value_of(messages))),
        (f"{first.factor} there", f"{best.value:g}"),
        ("p99 there", f"{best.value_of(percentile('p99_s')) * 1000:,.3g} ms"),
    ]


def _count(runs: Runs) -> str:
    whole, all_of_them = len(runs.complete), len(runs.complete) + len(runs.missing)
    return f"{whole} runs" if whole == all_of_them else f"{whole} of {all_of_them} runs"


def _plain(name: str) -> str:
    """The name in a form for files and ids."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
