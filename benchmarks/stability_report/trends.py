"""What of a run is tested for a trend, from its series in coarse intervals, of which there are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from telesto.benchmarks.analysis.trend import Trend, trend_of
from telesto.benchmarks.pages.section import Kind
from telesto.benchmarks.stability_report.verdict import Metric

RATE: Final = "messages_per_s"
SHORTEST_SHARE: Final = 0.5
"""The last interval of a run is tested when it is at least so long as the others."""

METRICS: Final = (
    Metric(RATE, "messages per second", Kind.RATIO, judged=True),
    Metric("latency_p50_s", "the median latency", Kind.SECONDS, judged=True),
    Metric("latency_p99_s", "the 99th percentile of latency", Kind.SECONDS, judged=True),
    Metric("age_p99_s", "the 99th percentile of the age at hand-over", Kind.SECONDS),
    Metric("backlog", "the backlog", Kind.COUNT, judged=True, of_messages=True, strictness=0.1),
    Metric("memory_middleware", "the memory of the middlewares", Kind.BYTES, judged=True),
    Metric("memory_postgres", "the memory of PostgreSQL", Kind.BYTES),
    Metric("memory_client", "the memory of the clients", Kind.BYTES),
    Metric("processors_middleware", "the processors that middlewares use", Kind.RATIO),
    Metric("processors_postgres", "the processors that PostgreSQL uses", Kind.RATIO),
    Metric("processors_client", "the processors that clients use", Kind.RATIO),
    Metric("wal_bytes_per_message", "the log that PostgreSQL writes for a message", Kind.BYTES),
    Metric("dead_rows", "the dead rows", Kind.COUNT),
)
"""What is tested, in the order of the page."""

Rows = Sequence[Mapping[str, Any]]


def trends_of_run(
    throughput: Rows,
    latency: Rows,
    backlog: Rows,
    processors: Rows,
    memory: Rows,
    log: Rows,
    levels: Rows,
) -> dict[str, Trend]:
    """Test the series of METRICS that a run has; each of the arguments holds coarse intervals that count."""
    series = [
        ("", throughput, "rate", RATE),
        ("measure", latency, "p50_s", "{}_p50_s"),
        ("measure", latency, "p99_s", "{}_p99_s"),
        ("", backlog, "backlog", "backlog"),
        ("tier", processors, "processors", "processors_{}"),
        ("tier", memory, "memory_bytes", "memory_{}"),
        ("", log, "bytes", "wal_bytes_per_message"),
        ("", levels, "level", "dead_rows"),
    ]
    points: dict[str, list[tuple[float, float]]] = {}
    for kind, rows, value, name in series:
        for row in _long_enough(rows):
            if row[value] is not None:
                middle = row["at_s"] + row["width_s"] / 2
                points.setdefault(name.format(row.get(kind)), []).append((middle, row[value]))
    known = [metric.key for metric in METRICS if metric.key in points]
    return {key: trend_of(*zip(*sorted(points[key]), strict=True)) for key in known}


def _long_enough(rows: Rows) -> Rows:
    """All but a last interval that is cut short to less than SHORTEST_SHARE."""
    longest = max((row["width_s"] for row in rows), default=0)
    return [row for row in rows if row["width_s"] >= SHORTEST_SHARE * longest]
