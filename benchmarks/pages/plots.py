"""Plots as SVG within a page: colours and scales of all plots, and the plots of several reports.

Plots are drawn within `style`, on axes of a `new_figure`, and end with `as_svg`.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from telesto.benchmarks.pages.section import duration

INK = "#1f2933"
QUIET = "#8a97a6"
GRID = "#e4e9ef"
COLOURS = ("#2f6fde", "#e58a1f", "#2a9d78", "#b64fc8", "#d64545", "#6b7a8c", "#c2b02d")
WIDTH_IN, HEIGHT_IN = 9.2, 3.3
_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "svg.fonttype": "none",
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
_DRAWING = threading.Lock()
_BEFORE_SVG = re.compile(r"^.*?(?=<svg)", re.DOTALL)


@contextmanager
def style(salt: str) -> Iterator[None]:
    """Draw within this block; `salt` keeps the ids of the plot unique within its page."""
    # The settings are global, and several sections are made concurrently.
    settings: Any = {**_STYLE, "svg.hashsalt": salt}
    with _DRAWING, mpl.rc_context(settings):
        yield


def new_figure(height: float = 1.0) -> Figure:
    """A figure as wide as the page; `height` is relative to that of a simple plot."""
    return Figure(figsize=(WIDTH_IN, HEIGHT_IN * height), layout="constrained")


def log_time(axes: Axes) -> None:
    """Times on the horizontal axis, on a logarithmic scale, in suitable units."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("time")


def log_time_upright(axes: Axes) -> None:
    """Times on the vertical axis, on a logarithmic scale, with labels within each factor of ten."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def thousands(value: float, _position: object = None) -> str:
    """A number for an axis."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"


def as_svg(figure: Figure) -> str:
    """The figure as SVG for a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return _BEFORE_SVG.sub("", text.getvalue())


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
    """A bar for each name, with stacked parts."""
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
    """For each name a line with a mark at each percentile; time is logarithmic."""
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
    """The number of messages in each class of time, both scales logarithmic, so that the tail is visible."""
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
    """A line of a single point would be invisible."""
    return "o" if len(moments) == 1 else ""


def _short(name: str) -> str:
    # Names come from users: a dollar sign must not begin a formula.
    text = name if len(name) <= LABEL_LENGTH_MAX else name[: LABEL_LENGTH_MAX - 1] + "…"
    return text.replace("$", r"\$")
