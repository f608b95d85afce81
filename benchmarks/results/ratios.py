"""Ratios of repetitions, targets, and tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of two figures, taken in each repetition: median, minimum, maximum."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.greatest:.2f})"


@dataclass(frozen=True, slots=True)
class Target:
    """A target and the result."""

    what: str
    wanted: str
    found: str
    reached: bool


def ratio(over: Iterable[float], under: Iterable[float]) -> Ratio:
    """Divide repetition by repetition; a divisor of 0 counts as no result and gives 0."""
    quotients = [a / b if b else 0.0 for a, b in zip(over, under, strict=True)]
    return Ratio(median(quotients), min(quotients), max(quotients))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns: the first to the left, the others to the right."""
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
