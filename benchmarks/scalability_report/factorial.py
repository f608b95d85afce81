"""The report on a 2^k r design: how much of a measure each factor and interaction explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from pyspark.sql import SparkSession

from telesto.benchmarks.analysis.two_levels import (
    Analysis,
    Effect,
    Quantiles,
    Signs,
    analyse,
    normal_quantiles,
)
from telesto.benchmarks.pages.page import Finding, Report
from telesto.benchmarks.pages.plots import COLOURS, QUIET, WIDTH_IN, as_svg, new_figure, style, thousands
from telesto.benchmarks.pages.section import Figures, Kind, Row, Section, columns, figures_of
from telesto.benchmarks.run_data.runs import Runs, findings_on, open_runs, origin_of, told
from telesto.benchmarks.scalability_report.sweep import STEPS, Measured, measure
from telesto.benchmarks.spark.errors import RunsError
from telesto.benchmarks.spark.failures import explained_failures

STEPS_OF_REPORT: Final = STEPS + 1
"""How often `step` is called."""
FACTORS_MAX: Final = 10
SUSPICIOUS: Final = 0.05
"""Residuals with a smaller p-value are not treated as normally distributed."""
JOINED: Final = " × "
Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure: its name, its unit, and how to compute it for a run."""

    key: str
    name: str
    unit: str
    of: Callable[[Measured], float]


MEASURES: Final = (
    Measure("throughput", "Throughput", "messages per second", lambda run: run.messages_per_s),
    Measure("response", "Mean response time", "milliseconds", lambda run: run.response_s["mean_s"] * 1e3),
    Measure(
        "p99", "99th percentile of response time", "milliseconds", lambda run: run.response_s["p99_s"] * 1e3
    ),
    Measure(
        "processors",
        "Processor time of a message",
        "microseconds",
        lambda run: sum(run.processors.values()) / run.messages_per_s * 1e6 if run.messages_per_s else 0.0,
    ),
)


@dataclass(frozen=True, slots=True)
class Design:
    """The complete part of a design.

    Attributes:
        factors: names and both levels, the low one first.
        runs: names of the runs of each combination, equally many of each.
        left_out: names of complete runs that are not used, because other combinations have fewer.
    """

    factors: Mapping[str, tuple[Any, Any]]
    runs: Mapping[Signs, tuple[str, ...]]
    left_out: tuple[str, ...]


def factorial_report(
    spark: SparkSession, path: Path, *, logarithms: bool = False, step: Step = lambda: None
) -> Report:
    """Make the report of an experiment with two levels of each factor.

    With `logarithms` it analyses logarithms of the measures, whose effects multiply. `step` is called
    STEPS_OF_REPORT times. Raises RunsError if the directory cannot be read or has another design, ReportError
    if Spark fails.
    """
    runs = open_runs(path)
    design = design_of(runs)
    with explained_failures():
        measured = measure(spark, runs, step)
    findings = findings_on(runs)
    if design.left_out:
        text = (
            f"All combinations need equally many repetitions: runs {told(design.left_out)} are left out, "
            "the last ones of an interrupted experiment."
        )
        findings.append(Finding("note", text))
    sections, main = [], None
    for each in MEASURES:
        values = {signs: [each.of(measured[name]) for name in names] for signs, names in design.runs.items()}
        if logarithms and any(value <= 0 for of in values.values() for value in of):
            findings.append(
                Finding("note", f"{each.name} is 0 in a run and has no logarithm: it is left out.")
            )
            continue
        if logarithms:
            values = {signs: [math.log10(value) for value in of] for signs, of in values.items()}
        found = analyse(list(design.factors), values)
        main = main or found
        findings += _said(each, found, logarithms)
        sections += _sections(each, found, logarithms)
    sections.append(_design_part(design))
    step()
    repetitions = len(next(iter(design.runs.values())))
    return Report(
        title="Telesto: report on a factorial design",
        subtitle=f"{runs.experiment.title}: 2^{len(design.factors)} combinations, {repetitions} repetitions",
        summary=_summary(design, main),
        findings=findings,
        sections=sections,
        footer=(*origin_of(runs), "docs/how-to/reports.md has the formulas and where they come from."),
    )


def design_of(runs: Runs) -> Design:
    """Find the complete part of a 2^k design; a factor with one level does not count.

    Raises RunsError if a factor has more than two levels, none has two, or a combination has no complete run.
    """
    where = runs.directory.path
    levels = {name: each for name, each in runs.experiment.varied.items() if len(each) > 1}
    if many := [name for name, each in levels.items() if len(each) > 2]:
        raise RunsError(
            f"{where}: {told(many)} has more than two levels; `telesto report scalability` shows "
            "curves over a factor"
        )
    if not levels:
        raise RunsError(f"{where}: {runs.experiment.name} has no factor of two levels")
    if len(levels) > FACTORS_MAX:
        raise RunsError(f"{where}: {len(levels)} factors are more than the {FACTORS_MAX} that a report shows")
    factors = {name: (each[0], each[1]) for name, each in levels.items()}
    found: dict[Signs, list[str]] = {signs: [] for signs in product((-1, 1), repeat=len(factors))}
    for run in sorted(runs.complete, key=lambda each: (each.combination, each.repetition)):
        signs = tuple(-1 if run.levels[name] == low else 1 for name, (low, _) in factors.items())
        found[signs].append(run.name)
    empty = sum(1 for names in found.values() if not names)
    if empty:
        raise RunsError(
            f"{where}: {empty} of {len(found)} combinations have no complete run; "
            "the same `telesto bench run` goes on with them"
        )
    least = min(len(names) for names in found.values())
    left_out = sorted(name for names in found.values() for name in names[least:])
    return Design(factors, {signs: tuple(names[:least]) for signs, names in found.items()}, tuple(left_out))


def _said(measure: Measure, found: Analysis, logarithms: bool) -> list[Finding]:
    """The main effects of a measure, and doubts about them."""
    first = [effect for effect in found.effects if effect.significant is not False][:2]
    told_effects = ", ".join(f"{JOINED.join(each.factors)} ({each.share or 0.0:.0%})" for each in first)
    matters = f"most of the variation is explained by {told_effects}" if first else "no effect is significant"
    texts = [f"{measure.name}: {matters}."]
    if found.multiplies and not logarithms:
        ratio = found.greatest / found.least
        texts.append(
            f"{measure.name} spans a factor of {ratio:.3g}: effects may multiply. Try --log to analyse "
            "logarithms."
        )
    return [Finding("note", text) for text in texts]


def _sections(measure: Measure, found: Analysis, logarithms: bool) -> list[Section]:
    unit = f"log10 of {measure.unit}" if logarithms else measure.unit
    names = [JOINED.join(effect.factors) for effect in found.effects]
    error_share = found.error_share if found.repetitions > 1 else None
    plot = effects(f"{measure.key} effects", names, found.effects, error_share)
    mean, how = found.mean.value, ""
    if logarithms:
        how = (
            f" An effect q means a factor of 10^2q from low to high (the geometric mean is {10**mean:.3g} "
            f"{measure.unit})."
        )
    significant = sum(1 for effect in found.effects if effect.significant)
    told_count = (
        f"{significant} of {len(found.effects)} effects are significant (95 % intervals); grey ones are not."
        if found.repetitions > 1
        else "With one repetition there are no intervals and no error: significance cannot be tested."
    )
    sections = [
        Section(
            measure.name,
            f"In {unit}; the mean is {mean:.4g}. An effect is half of the change from a factor's low level "
            "to its high level. An interaction is the amount by which one factor changes another's effect."
            + how,
            _effect_figures(measure, found),
            plot,
            told_count,
            folded=True,
            group=measure.name,
        )
    ]
    if found.repetitions > 1:
        sections.append(_residual_part(measure, found, unit))
    return sections


def _effect_figures(measure: Measure, found: Analysis) -> Figures:
    fields = (
        *columns(Kind.TEXT, effect="effect of"),
        *columns(Kind.RATIO, value="effect", low="from", high="to"),
        *columns(Kind.SHARE, share="of the variation"),
        *columns(Kind.TEXT, significant="significant"),
    )
    rows: list[Row] = [_effect_row(found.mean), *(_effect_row(effect) for effect in found.effects)]
    if found.repetitions > 1:
        rows.append(("between repetitions", found.error_deviation, None, None, found.error_share, ""))
    return figures_of(f"{measure.key}-effects", fields, rows)


def _effect_row(effect: Effect) -> Row:
    said = {True: "yes", False: "no", None: "not known"}[effect.significant]
    return (JOINED.join(effect.factors) or "mean", effect.value, effect.low, effect.high, effect.share, said)


def _residual_part(measure: Measure, found: Analysis, unit: str) -> Section:
    quantiles = normal_quantiles(found.residuals)
    rows = zip(found.predicted, found.residuals, strict=True)
    if quantiles.probability is None:
        normal = "There are too few different residuals to test whether they are normally distributed."
    elif quantiles.probability < SUSPICIOUS:
        normal = (
            f"They are hardly normally distributed (Shapiro-Wilk, p = {quantiles.probability:.2g}): the "
            "intervals are rough; try logarithms (--log)."
        )
    else:
        normal = f"They may be normally distributed (Shapiro-Wilk, p = {quantiles.probability:.2g})."
    return Section(
        f"Residuals: {measure.name[0].lower()}{measure.name[1:]}",
        "The differences of repetitions from the mean of their combination. The intervals assume that "
        "residuals are independent, normally distributed, and equally spread everywhere.",
        figures_of(f"{measure.key}-residuals", columns(Kind.RATIO, "predicted", "residual"), rows),
        residuals(f"{measure.key} residuals", found.predicted, found.residuals, quantiles, unit),
        "Left: there should be no pattern, and an even spread. Right: points should lie on the line. "
        f"{normal}",
        folded=True,
        group=measure.name,
    )


def _design_part(design: Design) -> Section:
    fields = columns(Kind.TEXT, factor="factor", low="low (-1)", high="high (+1)")
    rows = ((name, str(low), str(high)) for name, (low, high) in design.factors.items())
    return Section(
        "The design",
        "Factors and their levels. All combinations were run, in random order within each repetition.",
        figures_of("design", fields, rows),
        group="The design",
    )


def _summary(design: Design, main: Analysis | None) -> list[tuple[str, str]]:
    repetitions = len(next(iter(design.runs.values())))
    shown: Sequence[tuple[str, str]] = []
    if main is not None:
        shown = [
            (f"of throughput by {JOINED.join(effect.factors)}", f"{effect.share or 0.0:.0%}")
            for effect in main.effects[:2]
        ]
    return [
        ("factors", f"{len(design.factors)}"),
        ("combinations", f"{len(design.runs)}"),
        ("repetitions", f"{repetitions}"),
        *shown,
    ]


BARS_MAX = 14
"""The plot shows at most this many effects, the largest first; the table has all."""


def effects(salt: str, names: Sequence[str], found: Sequence[Effect], error_share: float | None) -> str:
    """Left the share of the variation that each explains, right its effect with the interval."""
    kept = list(found)[:BARS_MAX]
    labels = list(names)[:BARS_MAX]
    with style(salt):
        figure = Figure(figsize=(WIDTH_IN, 1.3 + 0.3 * (len(kept) + 1)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        places = list(range(len(kept)))
        left.barh(places, [effect.share or 0.0 for effect in kept], 0.62, color=COLOURS[0])
        if error_share is not None:
            left.barh([len(kept)], [error_share], 0.62, color=QUIET)
            places, labels = [*places, len(kept)], [*labels, "between repetitions"]
        left.set_yticks(places, labels)
        left.invert_yaxis()
        left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        left.set_xlabel("of the variation explained")
        _draw_effects(right, kept)
        for axes in (left, right):
            axes.grid(axis="y", visible=False)
        return as_svg(figure)


def residuals(
    salt: str, predicted: Sequence[float], left: Sequence[float], quantiles: Quantiles, unit: str
) -> str:
    """Residuals against the predictions, and against the quantiles of a normal distribution."""
    with style(salt):
        figure = new_figure(1.05)
        over, normal = figure.subplots(1, 2)
        over.scatter(predicted, left, s=18, color=COLOURS[0], alpha=0.75)
        over.axhline(0, color=QUIET, linewidth=1)
        over.set_xlabel(f"predicted, {unit}")
        over.set_ylabel(f"residual, {unit}")
        over.xaxis.set_major_locator(MaxNLocator(6))
        over.xaxis.set_major_formatter(FuncFormatter(thousands))
        normal.scatter(quantiles.normal, quantiles.ordered, s=18, color=COLOURS[0], alpha=0.75)
        ends = [min(quantiles.normal), max(quantiles.normal)]
        line = [quantiles.intercept + quantiles.slope * end for end in ends]
        normal.plot(ends, line, color=COLOURS[1], linewidth=1.4)
        normal.set_xlabel("quantile of the normal distribution")
        normal.set_ylabel(f"residual, {unit}")
        for axes in (over, normal):
            axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        return as_svg(figure)


def _draw_effects(axes: Axes, kept: Sequence[Effect]) -> None:
    for place, effect in enumerate(kept):
        colour = QUIET if effect.significant is False else COLOURS[0 if effect.value >= 0 else 4]
        if effect.low is not None and effect.high is not None:
            axes.plot([effect.low, effect.high], [place, place], color=colour, linewidth=2)
        axes.scatter([effect.value], [place], s=30, color=colour, zorder=3)
    axes.axvline(0, color=QUIET, linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
    axes.set_xlabel("effect, half of the change from low to high")
