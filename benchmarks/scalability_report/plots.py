"""Plots of the report on scalability: curves over a factor with their intervals, and stacked bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from telesto.benchmarks.analysis.repetitions import Mean
from telesto.benchmarks.pages.plots import COLOURS, QUIET, as_svg, new_figure, style, thousands
from telesto.benchmarks.pages.section import duration, three_digits

CURVE_POINTS: Final = 200
WIDE: Final = 8.0
"""A greater ratio between the extreme levels needs a logarithmic scale."""
MS_PER_S: Final = 1000.0
DASHES: Final = ("--", ":", "-.")

Curve = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Panel:
    """One of several plots over the same factor.

    Attributes:
        label: of its axis, with the unit.
        measured: means of each level, by name; drawn with intervals.
        repetitions: single values of each level, of the first of `measured`.
        curves: laws, bounds and models as lines, by name; NaN where they are undefined.
        steps: the same, known at the levels only.
        logarithmic: whether values span orders of magnitude.
    """

    label: str
    measured: Mapping[str, Sequence[Mean]]
    repetitions: Sequence[Sequence[float]] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    steps: Mapping[str, Sequence[float]] = field(default_factory=dict)
    times: bool = False
    logarithmic: bool = False


def over_factor(
    salt: str, name: str, levels: Sequence[float], panels: Sequence[Panel], knee: float | None = None
) -> str:
    """Panels on top of each other over the levels of a factor; `knee` is marked in each."""
    with style(salt):
        figure = new_figure(0.35 + 0.75 * len(panels))
        rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, panel in zip(rows, panels, strict=True):
            _draw(axes, levels, panel)
            if knee is not None and min(levels) <= knee <= max(levels):
                axes.axvline(knee, color=QUIET, linewidth=1, linestyle=(0, (1, 2)))
            axes.legend(loc="upper left", bbox_to_anchor=(0, 1.2), ncols=4, fontsize=8.5)
        scale_of_levels(rows[-1], levels)
        rows[-1].set_xlabel(name)
        return as_svg(figure)


def lines(
    salt: str, name: str, levels: Sequence[float], series: Mapping[str, Sequence[float]], label: str
) -> str:
    """A line for each series; 1 is full utilisation."""
    with style(salt):
        figure = new_figure(1.05)
        axes = figure.subplots()
        for index, (each, values) in enumerate(series.items()):
            axes.plot(
                levels, values, color=COLOURS[index % len(COLOURS)], marker="o", markersize=4.5, label=each,
                linestyle="-" if index < len(COLOURS) else "--",
            )  # fmt: skip
        axes.axhline(1, color=QUIET, linewidth=1, linestyle=":")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        axes.set_ylabel(label)
        axes.set_xlabel(name)
        scale_of_levels(axes, levels)
        figure.legend(loc="outside upper left", ncols=4, fontsize=8.5)
        return as_svg(figure)


def stacked(
    salt: str, name: str, levels: Sequence[float], parts: Mapping[str, Sequence[float]], unit: str
) -> str:
    """A stacked bar for each level."""
    with style(salt):
        figure = new_figure(1.05)
        axes = figure.subplots()
        bottom = np.zeros(len(levels))
        places = np.arange(len(levels))
        for index, (part, values) in enumerate(parts.items()):
            axes.bar(places, values, 0.62, bottom=bottom, color=COLOURS[index % len(COLOURS)], label=part)
            bottom += np.asarray(values)
        for place, height in zip(places, bottom, strict=True):
            axes.annotate(
                three_digits(float(height)), (place, height), ha="center", va="bottom", fontsize=8.5,
                xytext=(0, 2), textcoords="offset points",
            )  # fmt: skip
        axes.set_xticks(places, [f"{level:g}" for level in levels])
        axes.grid(axis="x", visible=False)
        axes.set_ylabel(unit)
        axes.set_xlabel(name)
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        figure.legend(loc="outside upper left", ncols=6, fontsize=8.5)
        return as_svg(figure)


def scale_of_levels(axes: Axes, levels: Sequence[float]) -> None:
    """Ticks at the levels; a logarithmic axis if they span orders of magnitude."""
    if min(levels) > 0 and max(levels) / min(levels) >= WIDE:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(levels, [f"{level:g}" for level in levels])


def _draw(axes: Axes, levels: Sequence[float], panel: Panel) -> None:
    if panel.repetitions:
        places = [level for level, values in zip(levels, panel.repetitions, strict=True) for _ in values]
        singles = [value for values in panel.repetitions for value in values]
        axes.scatter(places, singles, s=12, color=COLOURS[0], alpha=0.35, linewidth=0, zorder=2.5)
    for index, (name, means) in enumerate(panel.measured.items()):
        axes.errorbar(
            levels, [each.mean for each in means], yerr=_reach(means), color=COLOURS[index], marker="o",
            markersize=4.5, linewidth=1.6, capsize=3, elinewidth=0.8 if index else 1.6, label=name, zorder=3,
        )  # fmt: skip
    grid = _grid(levels)
    for index, (name, curve) in enumerate(panel.curves.items()):
        values = [curve(at) for at in grid]
        colour = COLOURS[(len(panel.measured) + index) % len(COLOURS)]
        axes.plot(
            grid, values, color=colour, linewidth=1.3, linestyle=DASHES[index % len(DASHES)], label=name
        )
    for index, (name, steps) in enumerate(panel.steps.items()):
        colour = COLOURS[(len(panel.measured) + len(panel.curves) + index) % len(COLOURS)]
        axes.plot(
            levels, steps, color=colour, linewidth=1.3, linestyle="--", marker="s", markersize=4, label=name
        )
    _scale_of_values(axes, panel)


def _scale_of_values(axes: Axes, panel: Panel) -> None:
    """Scale the axis to the measurements; curves may leave the plot."""
    highest = [
        each.high if each.high is not None else each.mean for of in panel.measured.values() for each in of
    ]
    highest += [value for steps in panel.steps.values() for value in steps]
    if panel.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=10))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, max(highest) * 1.15 or 1.0)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_ylabel(panel.label)
    axes.yaxis.set_major_formatter(FuncFormatter(_time if panel.times else thousands))


def _reach(means: Sequence[Mean]) -> Any:
    """The distances from each mean to the ends of its interval, at least down to 0."""
    low = [each.mean - max(each.low if each.low is not None else each.mean, 0.0) for each in means]
    high = [(each.high if each.high is not None else each.mean) - each.mean for each in means]
    return np.array([low, high])


def _grid(levels: Sequence[float]) -> list[float]:
    least, greatest = min(levels), max(levels)
    if least > 0 and greatest / least >= WIDE:
        return [float(at) for at in np.geomspace(least, greatest, CURVE_POINTS)]
    return [float(at) for at in np.linspace(least, greatest, CURVE_POINTS)]


def _time(value: float, _position: object = None) -> str:
    return duration(value) if value > 0 else "0"
