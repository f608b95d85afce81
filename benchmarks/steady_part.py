"""The part of the report about put plus read over time."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from telesto.benchmarks.figures import change_within, table
from telesto.benchmarks.report import Part
from telesto.benchmarks.steady import SHAPE, Steady

CHANGE_MAX: Final = 0.15

_HEADER: Final = (
    *("condition", "seconds", "per second", "slowest second", "fastest second"),
    *("last third against first", "postgres us, first third", "last third"),
)


def steady_part(found: Sequence[Steady]) -> Part:
    """Return the part for all conditions."""
    text = f"Put plus read over time, {SHAPE} connections\n\n{table(_HEADER, [_row(each) for each in found])}"
    targets = [
        change_within(f"put-read, {each.condition}: last third against first", CHANGE_MAX, each.change)
        for each in found
    ]
    plain = [asdict(each) | {"change": each.change} for each in found]
    return Part("steady", text, targets, [each.measurement for each in found], plain)


def _row(steady: Steady) -> list[str]:
    run = steady.measurement
    rates_per_s = [f"{rate:,.0f}" for rate in (run.per_second, min(run.series), max(run.series))]
    cpu = [f"{steady.postgres_us[0]:.1f}", f"{steady.postgres_us[-1]:.1f}"]
    return [steady.condition, str(len(run.series)), *rates_per_s, f"{steady.change:+.1%}", *cpu]
