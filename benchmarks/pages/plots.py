"""Plots as SVG, to stand within a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from telesto.benchmarks.pages.canvas import (
    COLOURS,
    QUIET,
    WIDTH_IN,
    as_svg,
    log_time,
    new_figure,
    style,
    thousands,
)

LABEL_LENGTH_MAX = 28
NAMES_MAX = 15
"""Bars in one plot, at most."""


def over_time(
    moments: Sequence[datetime], rates: Mapping[str, Sequence[float]], backlog: Sequence[float]
) -> str:
    """Rates per second as lines above, the backlog as an area below, over the same time."""
    with style("over_time"):
        figure = new_figure(1.35)
        upper, lower = figure.subplots(2, 1, sharex=True)
        for (name, values), colour in zip(rates.items(), COLOURS, strict=False):
            upper.plot(moments, values, color=colour, label=name, linewidth=1.5, marker=_marker(moments))
        upper.set_ylabel("messages per second")
        upper.legend(loc="upper left", bbox_to_anchor=(0, 1.16), ncols=len(rates))
        lower.fill_between(moments, backlog, color=COLOURS[0], alpha=0.22, linewidth=0)
        lower.plot(moments, backlog, color=COLOURS[0], linewidth=1.5, marker=_marker(moments))
        lower.set_ylabel("messages there")
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        lower.xaxis.set_major_locator(locator)
        formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        lower.xaxis.set_major_formatter(formatter)
        for axes in (upper, lower):
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        return as_svg(figure)


def stacked_bars(names: Sequence[str], parts: Mapping[str, Sequence[float]], unit: str) -> str:
    """A bar for each name, made of parts."""
    with style(f"stacked {unit} {len(names)}"):
        figure, axes = _bars(len(names))
        labels = [_short(name) for name in names]
        positions = list(range(len(names)))
        left = [0.0] * len(names)
        for index, (part, values) in enumerate(parts.items()):
            axes.barh(
                positions, values, left=left, color=COLOURS[index % len(COLOURS)], label=part, height=0.66
            )
            left = [before + value for before, value in zip(left, values, strict=True)]
        axes.set_yticks(positions, labels)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(unit)
        axes.xaxis.set_major_formatter(FuncFormatter(thousands))
        figure.legend(loc="outside upper left", ncols=len(parts))
        return as_svg(figure)


def percentile_spans(names: Sequence[str], spans: Sequence[Sequence[float]], labels: Sequence[str]) -> str:
    """For each name a line with a mark at each percentile; time on a logarithmic scale."""
    with style("spans"):
        figure, axes = _bars(len(names))
        positions = list(range(len(names)))
        floor = 1e-5
        kept = [[max(value, floor) for value in span] for span in spans]
        for position, span in zip(positions, kept, strict=True):
            axes.plot([span[0], span[-1]], [position, position], color=QUIET, linewidth=1.2, zorder=2)
        for index, label in enumerate(labels):
            values = [span[index] for span in kept]
            axes.scatter(values, positions, color=COLOURS[index], label=label, s=34, zorder=3)
        axes.set_yticks(positions, names)
        axes.invert_yaxis()
        axes.set_ylim(len(names) - 0.4, -0.6)
        log_time(axes)
        figure.legend(loc="outside upper left", ncols=len(labels))
        return as_svg(figure)


def time_classes(starts: Sequence[float], counts: Sequence[float], steps_per_decade: int) -> str:
    """How many fell into each class of time, both on logarithmic scales, so that the tail is seen."""
    with style("classes"):
        figure = new_figure()
        axes = figure.subplots()
        factor = 10 ** (1 / steps_per_decade)
        widths = [start * (factor - 1) for start in starts]
        axes.bar(
            starts, counts, width=widths, align="edge", color=COLOURS[0], edgecolor="white", linewidth=0.6
        )
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        axes.set_ylabel("messages")
        log_time(axes)
        return as_svg(figure)


def _bars(count: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_IN, 1.15 + 0.3 * max(count, 1)), layout="constrained")
    return figure, figure.subplots()


def _marker(moments: Sequence[datetime]) -> str:
    """A line of one point is not seen."""
    return "o" if len(moments) == 1 else ""


def _short(name: str) -> str:
    # Names come from users: a dollar sign is no formula.
    text = name if len(name) <= LABEL_LENGTH_MAX else name[: LABEL_LENGTH_MAX - 1] + "…"
    return text.replace("$", r"\$")
