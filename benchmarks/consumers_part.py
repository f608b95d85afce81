"""The part of the report about consumers."""

from collections.abc import Sequence
from typing import Final

from telesto.benchmarks.consumers import FEW, IN_FLIGHT, KEYS, MANY, PRODUCERS, ConsumerRun, ConsumerRuns
from telesto.benchmarks.figures import Target, at_least, ratio, table
from telesto.benchmarks.load_runs import median_of, row
from telesto.benchmarks.report import Part

UNKEYED_MIN: Final = 15_000
KEYED_MIN: Final = 10_000
FLAT_MIN: Final = 0.8
DELAY_MS_MAX: Final = 5.0

_HEADER: Final = (
    *("load", "puts per second", "acknowledged per second", "median ms", "p99 ms"),
    *("client us", "middleware us", "postgres us"),
)


def consumers_part(runs: ConsumerRuns) -> Part:
    """Return the part."""
    keyed = f"over {KEYS:,} keys"
    producing = f"{MANY} consumers, {PRODUCERS} x {IN_FLIGHT} puts"
    rows = [
        _row(f"{FEW} consumer", runs.one),
        _row(f"{MANY} consumers", runs.many),
        _row(f"{FEW} consumer, {keyed}", runs.one_keyed),
        _row(f"{MANY} consumers, {keyed}", runs.many_keyed),
        _row(f"{MANY} consumers, an old snapshot is held", runs.many_snapshot),
        _row(f"{MANY} consumers, {keyed}, an old snapshot is held", runs.many_keyed_snapshot),
        _row(producing, runs.stream),
        _row(f"{producing} {keyed}", runs.stream_keyed),
        _row(f"{producing}, the large backlog", runs.stream_backlog),
        _row("one at a time", runs.rest),
    ]
    return Part("consumers", f"Consumers\n\n{table(_HEADER, rows)}", _targets(runs), plain=runs.plain)


def _targets(runs: ConsumerRuns) -> list[Target]:
    wrong = [text for found in runs.named.values() for run in found for text in run.wrong]
    delay = median_of(runs.rest, lambda run: run.median_ms)
    return [
        _rate(f"{FEW} consumer without keys", runs.one, UNKEYED_MIN),
        _rate(f"{MANY} consumers without keys", runs.many, UNKEYED_MIN),
        _rate(f"{FEW} consumer over {KEYS:,} keys", runs.one_keyed, KEYED_MIN),
        _rate(f"{MANY} consumers over {KEYS:,} keys", runs.many_keyed, KEYED_MIN),
        _share("an old snapshot held against none, without keys", runs.many_snapshot, runs.many),
        _share("an old snapshot held against none, keyed", runs.many_keyed_snapshot, runs.many_keyed),
        _share("consuming: the large backlog against an empty queue", runs.stream_backlog, runs.stream),
        Target(
            "median from put to delivery at rest",
            f"under {DELAY_MS_MAX:g} ms",
            f"{delay:.2f} ms",
            0 < delay < DELAY_MS_MAX,
        ),
        Target(
            "every message acknowledged once, every partition in order",
            "none wrong",
            f"{len(wrong)} wrong {wrong[:3] if wrong else ''}".strip(),
            not wrong,
        ),
    ]


def _rate(what: str, runs: Sequence[ConsumerRun], least: int) -> Target:
    acks = median_of(runs, lambda run: run.acks)
    return Target(f"{what}, acknowledged per second", f"at least {least:,}", f"{acks:,.0f}", acks >= least)


def _share(what: str, runs: Sequence[ConsumerRun], base: Sequence[ConsumerRun]) -> Target:
    return at_least(what, FLAT_MIN, ratio([run.acks for run in runs], [run.acks for run in base]))


def _row(name: str, runs: Sequence[ConsumerRun]) -> list[str]:
    return row(name, runs, lambda run: run.acks)
