"""Plots of a 2^k r design: what explains the variation, effects with intervals, and residuals."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from telesto.benchmarks.analysis.two_levels import Effect, Quantiles
from telesto.benchmarks.pages.canvas import COLOURS, QUIET, WIDTH_IN, as_svg, new_figure, style, thousands

BARS_MAX = 14
"""So many effects are drawn, the largest; the table has all."""


def effects(salt: str, names: Sequence[str], found: Sequence[Effect], error_share: float | None) -> str:
    """Left what each explains of the variation, right its effect with the interval."""
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
    """Residuals over what the model predicts, and against the quantiles of a normal distribution."""
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
