"""Figures of several repetitions, the targets that they are held to, and tables of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from telesto.benchmarks.measurement import Measurement

TIERS: Final = ("client", "middleware", "postgres")


@dataclass(frozen=True, slots=True)
class Ratio:
    """The quotient of two figures, taken in each repetition: median, least, greatest."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.greatest:.2f})"


@dataclass(frozen=True, slots=True)
class Target:
    """A target and what came out."""

    what: str
    wanted: str
    found: str
    reached: bool


def ratio(over: Iterable[float], under: Iterable[float]) -> Ratio:
    """Divide repetition by repetition; a divisor of 0 counts as no result and gives 0."""
    quotients = [a / b if b else 0.0 for a, b in zip(over, under, strict=True)]
    return Ratio(median(quotients), min(quotients), max(quotients))


def rates(runs: Sequence[Measurement]) -> list[float]:
    """Return the messages per second of each run."""
    return [run.per_second for run in runs]


def at_least(what: str, wanted: float, found: Ratio) -> Target:
    """Return a target that the median has to reach."""
    return Target(what, f"at least {wanted:g}", str(found), found.median >= wanted)


def at_most(what: str, wanted: float, found: Ratio) -> Target:
    """Return a target that the median must not exceed."""
    return Target(what, f"at most {wanted:g}", str(found), 0 < found.median <= wanted)


def change_within(what: str, wanted: float, change: float) -> Target:
    """Return a target that a relative change, to either side, must not exceed."""
    return Target(what, f"within {wanted:.0%}", f"{change:+.1%}", abs(change) <= wanted)


def rate_cell(runs: Sequence[Measurement]) -> str:
    """Return the median rate as a table shows it."""
    return f"{median(rates(runs)):,.0f}"


def cpu_cells(runs: Sequence[Measurement]) -> list[str]:
    """Return the median microseconds of CPU per message of each tier."""
    return [f"{median(run.cpu_us[tier] for run in runs):.1f}" for tier in TIERS]


def latency_cells(runs: Sequence[Measurement]) -> list[str]:
    """Return median and 99th percentile of puts and reads in milliseconds; empty where there was none."""
    times = [(run.put.median_s, run.put.p99_s, run.take.median_s, run.take.p99_s) for run in runs]
    return [_milliseconds(median(column)) for column in zip(*times, strict=True)]


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.2f}" if seconds else ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns are aligned, the first to the left, the others to the right."""
    widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]
    rule = ["-" * width if column == 0 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    lines = [_aligned(header, widths), _aligned(rule, widths), *(_aligned(row, widths) for row in rows)]
    return "\n".join(lines)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"
