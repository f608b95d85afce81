"""The part of the report about topics."""

from collections.abc import Sequence
from typing import Final

from telesto.benchmarks.figures import Target, at_least, ratio, table
from telesto.benchmarks.load_runs import median_of, row
from telesto.benchmarks.report import Part
from telesto.benchmarks.topics import FETCHERS, IN_FLIGHT, MANY, PUBLISHERS, TopicRun, TopicRuns

SHARE_MIN: Final = 0.8
FAN_OUT_MIN: Final = 20_000
DELAY_MS_MAX: Final = 5.0

_HEADER: Final = (
    *("load", "puts per second", "deliveries per second", "median ms", "p99 ms"),
    *("client us", "middleware us", "postgres us"),
)


def topics_part(runs: TopicRuns) -> Part:
    """Return the part."""
    shape = f"{PUBLISHERS} x {IN_FLIGHT} puts"
    rows = [
        _row(f"{shape}, 1 subscriber", runs.put_few),
        _row(f"{shape}, {MANY} subscribers", runs.put_many),
        _row(f"{FETCHERS} subscribers fetch one at a time", runs.fetch),
        _row(f"{MANY} subscribers follow 1 x {IN_FLIGHT} puts", runs.fan_out),
        _row("one at a time, to one middleware", runs.same),
        _row("one at a time, across two middlewares", runs.across),
    ]
    return Part("topics", f"Topics\n\n{table(_HEADER, rows)}", _targets(runs), plain=runs.plain)


def _targets(runs: TopicRuns) -> list[Target]:
    share = ratio([run.puts for run in runs.put_many], [run.puts for run in runs.put_few])
    fan_out = median_of(runs.fan_out, lambda run: run.deliveries)
    wrong = [text for found in runs.named.values() for run in found for text in run.wrong]
    return [
        at_least(f"put to a topic with {MANY} subscribers against 1", SHARE_MIN, share),
        Target(
            f"fan-out to {MANY} waiting subscribers, deliveries per second",
            f"at least {FAN_OUT_MIN:,}",
            f"{fan_out:,.0f}",
            fan_out >= FAN_OUT_MIN,
        ),
        *(
            Target(
                f"median from put to delivery when idle, {where}",
                f"under {DELAY_MS_MAX:g} ms",
                f"{delay:.2f} ms",
                0 < delay < DELAY_MS_MAX,
            )
            for where, delay in (
                ("one middleware", median_of(runs.same, lambda run: run.median_ms)),
                ("two middlewares", median_of(runs.across, lambda run: run.median_ms)),
            )
        ),
        Target(
            "every subscriber: numbers without a gap or repetition",
            "none wrong",
            f"{len(wrong)} wrong {wrong[:3] if wrong else ''}".strip(),
            not wrong,
        ),
    ]


def _row(name: str, runs: Sequence[TopicRun]) -> list[str]:
    return row(name, runs, lambda run: run.deliveries)
