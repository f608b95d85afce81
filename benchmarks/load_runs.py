"""What the runs of a load give, of topics and of consumers alike, and how a report shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from statistics import median
from typing import Any, ClassVar, TypeVar

from telesto.benchmarks.buckets import rate
from telesto.benchmarks.figures import TIERS
from telesto.benchmarks.measurement import Timing
from telesto.benchmarks.records import Window, percentile
from telesto.benchmarks.worker import Result


class LoadRun:
    """One run; what it counts beside puts is called by its own name.

    Attributes:
        puts: per second.
        delays: from a put to its delivery, in seconds; only of paced runs.
        cpu_us: microseconds of CPU of each tier.
    """

    __slots__ = ()
    puts: float
    delays: list[float]
    cpu_us: dict[str, float]

    @property
    def median_ms(self) -> float:
        """The median delay in milliseconds."""
        return 1000 * median(self.delays) if self.delays else 0.0

    @property
    def p99_ms(self) -> float:
        """The delay that one in a hundred exceeds, in milliseconds."""
        return 1000 * percentile(sorted(self.delays), 0.99) if self.delays else 0.0


RunT = TypeVar("RunT", bound=LoadRun)


class LoadRuns:
    """The runs of several loads: a dataclass of lists of dataclasses."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def named(self) -> dict[str, list[Any]]:
        """The runs of each load by its name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def plain(self) -> dict[str, list[dict[str, Any]]]:
        """The runs for a file: how many delays there were, not each of them."""
        return {
            name: [asdict(run) | {"delays": len(run.delays)} for run in found]
            for name, found in self.named.items()
        }


def rates(results: Sequence[Result], timing: Timing, *what: str) -> list[float]:
    """Return how much there was per second of each of these, of all generators together."""
    return [sum(rate(result[each], timing) for result in results) for each in what]


def delays_within(results: Sequence[Result], window: Window) -> list[float]:
    """Return the delays of what was delivered in the measured part."""
    return [delay for result in results for at, delay in result["delays"] if window.begin <= at < window.end]


def all_wrong(results: Sequence[Result]) -> list[str]:
    """Return what the generators noticed."""
    return [text for result in results for text in result["wrong"]]


def cpu_for_each(usage: dict[str, float], done: float) -> dict[str, float]:
    """Return the microseconds of each tier for each of so many."""
    return {tier: 1e6 * used / done if done else 0.0 for tier, used in usage.items()}


def median_of(runs: Sequence[RunT], figure: Callable[[RunT], float]) -> float:
    """Return the median of a figure of some runs."""
    return median(figure(run) for run in runs)


def row(name: str, runs: Sequence[RunT], done: Callable[[RunT], float]) -> list[str]:
    """Return a load's row: puts and what was done per second, delays, CPU of each tier."""
    delays = [median_of(runs, lambda run: run.median_ms), median_of(runs, lambda run: run.p99_ms)]
    return [
        name,
        _whole(median_of(runs, lambda run: run.puts)),
        _whole(median_of(runs, done)),
        *(f"{delay:.2f}" if delay else "" for delay in delays),
        *(f"{median(run.cpu_us[tier] for run in runs):.1f}" for tier in TIERS),
    ]


def _whole(figure: float) -> str:
    return f"{figure:,.0f}" if figure else ""
