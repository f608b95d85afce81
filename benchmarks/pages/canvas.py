"""What all plots have in common: colours, scales, and how they become SVG to stand within a page.

Plots are drawn within `style`, on axes of a `new_figure`, and end with `as_svg`.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
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
    """Draw within this; `salt` tells the plot from the others of its page (ids within a page are shared)."""
    # The settings are the library's, so the process's; several sections are made at a time.
    settings: Any = {**_STYLE, "svg.hashsalt": salt}
    with _DRAWING, mpl.rc_context(settings):
        yield


def new_figure(height: float = 1.0) -> Figure:
    """A figure as wide as the page; `height` is in units of that of a plain plot."""
    return Figure(figsize=(WIDTH_IN, HEIGHT_IN * height), layout="constrained")


def log_time(axes: Axes) -> None:
    """Times on the horizontal axis, on a logarithmic scale, in units that suit them."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("time")


def log_time_upright(axes: Axes) -> None:
    """Times on the vertical axis, on a logarithmic scale, with labels also within a factor of ten."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def thousands(value: float, _position: object = None) -> str:
    """A number for an axis."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"


def as_svg(figure: Figure) -> str:
    """The figure as it stands within a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return _BEFORE_SVG.sub("", text.getvalue())
