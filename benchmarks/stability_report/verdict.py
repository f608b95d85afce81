"""Whether a run was stable, by figures that are on the page.

A series is **steady** if the confidence interval of its change over the run lies within the tolerance: a
larger change is then ruled out. It **drifts** if the trend is significant and the change exceeds the
tolerance. Otherwise the run is too short, or too noisy, for a verdict, and the report says so. The tests use
the series in coarse intervals, of which there are few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from telesto.benchmarks.analysis.trend import CONFIDENCE, POINTS_MIN, Trend, trend_of
from telesto.benchmarks.pages.section import Kind, duration, shown

TOLERANCE: Final = 0.10
"""A smaller change over the whole run, relative to the median, is no drift."""
STALL_BELOW: Final = 0.5
"""A second with fewer messages than this share of the median is a stall."""
STALLED_MAX: Final = 0.01
"""In a stable run a smaller share of the seconds is stalled."""
LONGEST_STALL_MAX_S: Final = 5
"""And no stall is longer."""
STALLED_ALLOWED_S: Final = 2
"""This many stalled seconds are no reason, however short the run is."""
S_PER_HOUR: Final = 3600


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's definition of stable, as shares of the median."""

    tolerance: float = TOLERANCE
    stall_below: float = STALL_BELOW


class Assessment(Enum):
    """The assessment of one series."""

    STEADY = "steady"
    DRIFTS = "drifts"
    UNKNOWN = "unknown"


class Outcome(Enum):
    """The outcome of a verdict."""

    STABLE = "stable"
    NOT_STABLE = "not stable"
    UNDECIDED = "unclear"


@dataclass(frozen=True, slots=True)
class Metric:
    """A series that is tested.

    Attributes:
        key: its name in the figures.
        title: its name on the page.
        kind: of its values.
        decisive: whether the verdict depends on it; others are only shown.
        of_messages: whether its change is relative to all messages of the run, and not to its median.
        strictness: the part of the tolerance that it may use.
    """

    key: str
    title: str
    kind: Kind
    decisive: bool = False
    of_messages: bool = False
    strictness: float = 1.0


@dataclass(frozen=True, slots=True)
class Drift:
    """The change of a series over the run, as shares of its reference, with the interval of CONFIDENCE.

    The shares are None if the series is too short or the reference is 0.
    """

    metric: Metric
    trend: Trend
    change: float | None
    low: float | None
    high: float | None
    assessment: Assessment

    @property
    def per_hour(self) -> str:
        """The slope with its interval, for people."""
        trend = self.trend
        if trend.slope is None or trend.slope_low is None or trend.slope_high is None:
            return "–"
        told = [
            _signed(value * S_PER_HOUR, self.metric.kind) for value in (trend.slope_low, trend.slope_high)
        ]
        return f"{_signed(trend.slope * S_PER_HOUR, self.metric.kind)} ({told[0]} to {told[1]})"


@dataclass(frozen=True, slots=True)
class Stalled:
    """The stalls of a run, in seconds; `seconds` of them in total, of `counted_s` measured seconds."""

    stalls: int
    seconds: int
    longest_s: int
    counted_s: int

    @property
    def share(self) -> float:
        """The share of the measured seconds."""
        return self.seconds / self.counted_s

    @property
    def too_much(self) -> bool:
        """Whether a run with these stalls is not stable."""
        many = self.seconds > max(STALLED_ALLOWED_S, STALLED_MAX * self.counted_s)
        return many or self.longest_s > LONGEST_STALL_MAX_S


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a run, and its reasons."""

    outcome: Outcome
    reasons: tuple[str, ...]

    def sentence(self) -> str:
        """The verdict as one sentence."""
        match self.outcome:
            case Outcome.STABLE:
                return f"Stable: {'; '.join(self.reasons)}."
            case Outcome.NOT_STABLE:
                return f"Not stable, because {'; '.join(self.reasons)}."
        return f"No verdict is possible: {'; '.join(self.reasons)}."


def drift_of(metric: Metric, trend: Trend, counted_s: float, messages: float, tolerance: float) -> Drift:
    """Assess one series by its trend over `counted_s` seconds with so many `messages`."""
    reference = messages if metric.of_messages else trend.median
    slopes = (trend.slope, trend.slope_low, trend.slope_high)
    if not reference or None in slopes:
        return Drift(metric, trend, None, None, None, Assessment.UNKNOWN)
    change, low, high = (slope * counted_s / reference for slope in slopes if slope is not None)
    return Drift(
        metric, trend, change, low, high, _assess(change, low, high, trend.p, tolerance * metric.strictness)
    )


def verdict_of(drifts: Sequence[Drift], stalled: Stalled, limits: Limits) -> Verdict:
    """Decide whether a run was stable."""
    decisive = [drift for drift in drifts if drift.metric.decisive]
    drifting = [drift for drift in decisive if drift.assessment is Assessment.DRIFTS]
    against = [_drifts(drift) for drift in drifting]
    if stalled.too_much:
        against.append(_stalls(stalled, limits))
    if against:
        return Verdict(Outcome.NOT_STABLE, tuple(against))
    unknown = [drift for drift in decisive if drift.assessment is Assessment.UNKNOWN]
    if unknown or not decisive:
        return Verdict(
            Outcome.UNDECIDED, tuple(_unknown(drift) for drift in unknown) or ("nothing was measured",)
        )
    titles = [drift.metric.title for drift in decisive]
    steady = f"{', '.join(titles)} changed by no more than {limits.tolerance:.0%} over the run"
    return Verdict(Outcome.STABLE, (f"{steady} ({CONFIDENCE:.0%} confidence)", _stalls(stalled, limits)))


def _assess(change: float, low: float, high: float, p: float | None, tolerance: float) -> Assessment:
    if -tolerance <= low and high <= tolerance:
        return Assessment.STEADY
    significant = p is not None and p < 1 - CONFIDENCE
    return Assessment.DRIFTS if significant and abs(change) > tolerance else Assessment.UNKNOWN


def _drifts(drift: Drift) -> str:
    assert drift.change is not None
    word = "rose" if drift.change > 0 else "fell"
    return (
        f"{drift.metric.title} {word} by {abs(drift.change):.1%}{_of(drift)} over the run "
        f"(between {drift.low:+.1%} and {drift.high:+.1%}, p = {drift.trend.p:.2g})"
    )


def _unknown(drift: Drift) -> str:
    if drift.trend.points < POINTS_MIN:
        return f"{drift.metric.title} has {drift.trend.points} intervals, but a test needs {POINTS_MIN}"
    if drift.low is None or drift.high is None:
        return f"{drift.metric.title} has a median of 0, so it has no relative change"
    return f"{drift.metric.title} may have changed by {drift.low:+.1%} to {drift.high:+.1%}{_of(drift)}"


def _of(drift: Drift) -> str:
    return " of all messages" if drift.metric.of_messages else ""


def _stalls(stalled: Stalled, limits: Limits) -> str:
    if not stalled.seconds:
        return f"no second had less than {limits.stall_below:.0%} of the median throughput"
    return (
        f"{stalled.seconds:,} of {stalled.counted_s:,} seconds ({stalled.share:.1%}) had less than "
        f"{limits.stall_below:.0%} of the median throughput, the longest stall took "
        f"{duration(stalled.longest_s)}"
    )


def _signed(value: float, kind: Kind) -> str:
    return ("−" if value < 0 else "+") + shown(abs(value), kind)


RATE: Final = "messages_per_s"
SHORTEST_SHARE: Final = 0.5
"""The last interval of a run is tested if it has at least this share of the others' length."""

METRICS: Final = (
    Metric(RATE, "messages per second", Kind.RATIO, decisive=True),
    Metric("latency_p50_s", "the median latency", Kind.SECONDS, decisive=True),
    Metric("latency_p99_s", "the 99th percentile of latency", Kind.SECONDS, decisive=True),
    Metric("age_p99_s", "the 99th percentile of the age at hand-over", Kind.SECONDS),
    Metric("backlog", "the backlog", Kind.COUNT, decisive=True, of_messages=True, strictness=0.1),
    Metric("memory_middleware", "the memory of the middlewares", Kind.BYTES, decisive=True),
    Metric("memory_postgres", "the memory of PostgreSQL", Kind.BYTES),
    Metric("memory_client", "the memory of the clients", Kind.BYTES),
    Metric("processors_middleware", "the processors that middlewares use", Kind.RATIO),
    Metric("processors_postgres", "the processors that PostgreSQL uses", Kind.RATIO),
    Metric("processors_client", "the processors that clients use", Kind.RATIO),
    Metric("wal_bytes_per_message", "the log that PostgreSQL writes for a message", Kind.BYTES),
    Metric("dead_rows", "the dead rows", Kind.COUNT),
)
"""The tested series, in the order of the page."""

Rows = Sequence[Mapping[str, Any]]


def trends_of_run(
    throughput: Rows, latency: Rows, backlog: Rows, processors: Rows, memory: Rows, log: Rows, levels: Rows
) -> dict[str, Trend]:
    """Test the series of METRICS that a run has; the arguments are measured coarse intervals."""
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
    """All but a last interval that is shorter than SHORTEST_SHARE."""
    longest = max((row["width_s"] for row in rows), default=0)
    return [row for row in rows if row["width_s"] >= SHORTEST_SHARE * longest]
