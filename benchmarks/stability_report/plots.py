"""Plots of the course of a run; the unmeasured parts are shaded in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, PercentFormatter

from telesto.benchmarks.pages.plots import (
    COLOURS,
    QUIET,
    WIDTH_IN,
    as_svg,
    log_time,
    log_time_upright,
    new_figure,
    style,
    thousands,
)
from telesto.benchmarks.pages.section import Kind, duration, shown
from telesto.benchmarks.run_data.timeline import Timeline
from telesto.benchmarks.stability_report.verdict import Assessment, Drift

SHADE: Final = "#eef1f5"
STALL: Final = "#f6c9c9"
TONES: Final = {Assessment.STEADY: "#2a9d78", Assessment.DRIFTS: "#d64545", Assessment.UNKNOWN: "#e58a1f"}
MINUTES_FROM_S: Final = 240
HOURS_FROM_S: Final = 4 * 3600
PERCENTILES: Final = {"p50_s": "p50", "p90_s": "p90", "p99_s": "p99", "p99_9_s": "p99.9", "max_s": "max"}
LOWEST_SHARE: Final = 1e-7
LOWEST_NAMED: Final = 0.001


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: values at the middle of intervals, in seconds since the load began."""

    at_s: Sequence[float]
    values: Sequence[float | None]


def throughput(
    line: Timeline,
    fine: Line,
    coarse: Line,
    median: float,
    stalls: Sequence[tuple[float, float]],
    below: float,
) -> str:
    """Messages per second; `stalls` are the beginnings and lengths of times below a share of the median."""
    with style("throughput"):
        figure, axes = _over_time(line)
        for begin, length in stalls:
            axes.axvspan(begin, begin + length, color=STALL, linewidth=0, zorder=0.5)
        alike = line.fine_s == line.coarse_s
        each = f"each {duration(line.fine_s)}"
        axes.plot(
            fine.at_s,
            _known(fine.values),
            color=COLOURS[0],
            alpha=1.0 if alike else 0.4,
            linewidth=1.3 if alike else 0.8,
            label=each,
        )
        if not alike:
            _plot(axes, coarse, COLOURS[0], f"mean of {duration(line.coarse_s)}", 2.0)
        axes.axhline(median, color=QUIET, linewidth=1, linestyle="--", label=f"median {thousands(median)}/s")
        axes.axhline(
            below * median,
            color=COLOURS[4],
            linewidth=1,
            linestyle=":",
            label=f"stalls are below {below:.0%} of it",
        )
        _from_zero(axes)
        axes.set_ylabel("messages per second")
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        figure.legend(loc="outside upper left", ncols=4)
        return as_svg(figure)


def latencies(line: Timeline, panels: Mapping[str, Mapping[str, Line]]) -> str:
    """For each panel (its title) the PERCENTILES over time, on a logarithmic scale."""
    with style(f"latencies {len(panels)}"):
        figure = new_figure(0.35 + 0.75 * len(panels))
        every = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (title, lines) in zip(every, panels.items(), strict=True):
            _shade(axes, line)
            for colour, (name, label) in zip(COLOURS, PERCENTILES.items(), strict=False):
                width = 0.9 if name == "max_s" else 1.4
                _plot(axes, lines[name], colour, label if axes is every[0] else None, width)
            log_time_upright(axes)
            axes.set_ylabel(title)
        _time_axis(every[-1], line)
        figure.legend(loc="outside upper left", ncols=len(PERCENTILES))
        return as_svg(figure)


def tails(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """For each name the share that took longer, on two logarithmic scales, so that the tail is visible."""
    with style("tails"):
        figure = new_figure(1.15)
        axes = figure.subplots()
        for colour, (name, (times, shares)) in zip(COLOURS * 2, curves.items(), strict=False):
            axes.plot(times, shares, color=colour, linewidth=1.6, label=name, drawstyle="steps-post")
        axes.set_yscale("log")
        for share, name in ((0.5, "p50"), (0.1, "p90"), (0.01, "p99"), (0.001, "p99.9")):
            axes.axhline(share, color=QUIET, linewidth=0.7, linestyle=":")
            axes.annotate(
                name,
                (1, share),
                xycoords=("axes fraction", "data"),
                xytext=(4, 0),
                textcoords="offset points",
                color=QUIET,
                va="center",
                fontsize=8.5,
            )
        axes.set_ylim(max(_lowest(curves), LOWEST_SHARE), 1.3)
        axes.yaxis.set_major_formatter(FuncFormatter(_share))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel("took longer")
        log_time(axes)
        figure.legend(loc="outside upper left", ncols=min(len(curves), 5))
        return as_svg(figure)


def area(line: Timeline, fine: Line, unit: str) -> str:
    """One quantity over time, as an area."""
    with style(f"area {unit}"):
        figure, axes = _over_time(line, 0.8)
        axes.fill_between(fine.at_s, _known(fine.values), color=COLOURS[0], alpha=0.22, linewidth=0)
        _plot(axes, fine, COLOURS[0], None, 1.2)
        axes.set_ylabel(unit)
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        return as_svg(figure)


def tiers(line: Timeline, processors: Mapping[str, Line], memory: Mapping[str, Line]) -> str:
    """Processors above and memory below, a line for each tier."""
    with style("tiers"):
        figure = new_figure(1.5)
        upper, lower = figure.subplots(2, 1, sharex=True)
        for axes, lines in ((upper, processors), (lower, memory)):
            _shade(axes, line)
            for colour, (name, curve) in zip(COLOURS, lines.items(), strict=False):
                _plot(axes, curve, colour, name if axes is upper else None, 1.4)
            _from_zero(axes)
        upper.set_ylabel("processors used")
        lower.set_ylabel("memory")
        lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, Kind.BYTES)))
        _time_axis(lower, line)
        figure.legend(loc="outside upper left", ncols=len(processors))
        return as_svg(figure)


def database(line: Timeline, log: Line, dead: Line, checkpoints: Sequence[float]) -> str:
    """The log for each message above, the dead rows below, checkpoints as vertical lines."""
    with style("database"):
        figure = new_figure(1.4)
        upper, lower = figure.subplots(2, 1, sharex=True)
        for axes in (upper, lower):
            _shade(axes, line)
            for index, moment in enumerate(checkpoints):
                label = "a checkpoint began" if axes is upper and not index else None
                axes.axvline(moment, color=COLOURS[3], linewidth=1.1, linestyle="--", label=label)
        _plot(upper, log, COLOURS[0], "log for a message", 1.5)
        _plot(lower, dead, COLOURS[1], "dead rows of all tables", 1.3)
        upper.set_ylabel("log for a message")
        upper.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, Kind.BYTES)))
        lower.set_ylabel("dead rows")
        lower.yaxis.set_major_formatter(FuncFormatter(thousands))
        for axes in (upper, lower):
            _from_zero(axes)
        _time_axis(lower, line)
        figure.legend(loc="outside upper left", ncols=3)
        return as_svg(figure)


def waits(line: Timeline, events: Mapping[str, Line]) -> str:
    """The number of backends by wait event, stacked; all have the same times."""
    with style("waits"):
        figure, axes = _over_time(line)
        moments = next(iter(events.values())).at_s
        values = [_known(curve.values) for curve in events.values()]
        axes.stackplot(moments, values, labels=list(events), colors=COLOURS, alpha=0.85, linewidth=0)
        axes.set_ylabel("active backends")
        figure.legend(loc="outside upper left", ncols=4)
        return as_svg(figure)


def drifts(rows: Sequence[Drift], tolerance: float) -> str:
    """The change of each series over the run with its interval; the band is the tolerance."""
    with style("drifts"):
        known = [row for row in rows if row.change is not None]
        figure = Figure(figsize=(WIDTH_IN, 1.2 + 0.3 * max(len(known), 1)), layout="constrained")
        axes = figure.subplots()
        axes.axvspan(-tolerance, tolerance, color=SHADE, zorder=0)
        axes.axvline(0, color=QUIET, linewidth=1)
        for place, row in enumerate(known):
            assert row.change is not None
            assert row.low is not None
            assert row.high is not None
            colour = TONES[row.assessment] if row.metric.decisive else QUIET
            axes.plot([row.low, row.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot([row.change], [place], "o", color=colour, markersize=6)
        axes.set_yticks(range(len(known)), [row.metric.title.removeprefix("the ") for row in known])
        axes.set_ylim(len(known) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
        axes.set_xlabel("change over the run")
        for assessment, colour in TONES.items():
            axes.plot([], [], "o-", color=colour, label=assessment.value)
        axes.plot([], [], "o-", color=QUIET, label="shown only")
        figure.legend(loc="outside upper left", ncols=4)
        return as_svg(figure)


def side_by_side(curves: Mapping[str, Line]) -> str:
    """Throughput of several runs over the measured time."""
    with style("side by side"):
        figure = new_figure()
        axes = figure.subplots()
        for colour, (name, curve) in zip(COLOURS * 2, curves.items(), strict=False):
            _plot(axes, curve, colour, name, 1.5)
        _from_zero(axes)
        axes.set_ylabel("messages per second")
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        longest = max((curve.at_s[-1] for curve in curves.values() if curve.at_s), default=1)
        _label_time(axes, longest)
        figure.legend(loc="outside upper left", ncols=4)
        return as_svg(figure)


def _over_time(line: Timeline, height: float = 1.0) -> tuple[Figure, Axes]:
    figure = new_figure(height)
    axes = figure.subplots()
    _shade(axes, line)
    _time_axis(axes, line)
    return figure, axes


def _shade(axes: Axes, line: Timeline) -> None:
    """Shade the unmeasured parts."""
    for begin, end, name in ((0, line.begin_s, "warm-up"), (line.end_s, line.total_s, "cool-down")):
        if end > begin:
            axes.axvspan(begin, end, color=SHADE, linewidth=0, zorder=0)
        if end - begin > line.total_s / 12:
            axes.annotate(
                name,
                ((begin + end) / 2, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, -3),
                textcoords="offset points",
                ha="center",
                va="top",
                color=QUIET,
                fontsize=8.5,
            )


def _from_zero(axes: Axes) -> None:
    """Begin at 0, and leave some space above a nearly flat curve."""
    axes.set_ylim(0, axes.get_ylim()[1] * 1.06)


def _time_axis(axes: Axes, line: Timeline) -> None:
    axes.set_xlim(0, line.total_s)
    _label_time(axes, line.total_s)


def _label_time(axes: Axes, longest_s: float) -> None:
    """Label the time in a unit with small numbers; the axis itself stays in seconds."""
    unit, name = 1, "seconds"
    if longest_s >= MINUTES_FROM_S:
        unit, name = 60, "minutes"
    if longest_s >= HOURS_FROM_S:
        unit, name = 3600, "hours"
    locator = MaxNLocator(10, steps=[1, 2, 5, 10]).tick_values(0, longest_s / unit)
    axes.set_xticks([tick * unit for tick in locator if 0 <= tick * unit <= longest_s])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))
    axes.set_xlabel(f"{name} since the load began")


def _plot(axes: Axes, curve: Line, colour: str, label: str | None, width: float) -> None:
    marker = "o" if len(curve.at_s) == 1 else ""
    axes.plot(curve.at_s, _known(curve.values), color=colour, label=label, linewidth=width, marker=marker)


def _known(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


def _lowest(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> float:
    """The lowest share to show, including all labelled percentiles."""
    least = min((share for _, shares in curves.values() for share in shares if share > 0), default=1.0)
    return min(least, LOWEST_NAMED) / 1.5


def _share(value: float, _position: object = None) -> str:
    return f"{value:.0%}" if value >= 0.01 else f"1 in {1 / value:,.0f}"
