"""What is asked of a run, and what it gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from telesto.benchmarks.audit import Balance
from telesto.benchmarks.records import Record, Window, completed, latencies, percentile, series
from telesto.benchmarks.tally import Tally, Workload
from telesto.client import Delivery

History = Literal["none", "metadata", "full"]

TAIL_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Shape:
    """How a load is made up: connections, and requests in flight on each."""

    connections: int
    in_flight: int = 1

    def __str__(self) -> str:
        return str(self.connections) if self.in_flight == 1 else f"{self.connections} x {self.in_flight}"


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a run takes: what does not count, then what does. Seconds.

    The load goes on for a moment after the measured part, for the CPU seconds of a process that is just
    ending can be missed: it is no longer there, and its parent has not got them yet.
    """

    warm_up_s: float
    measured_s: float

    @property
    def total_s(self) -> float:
        """Length of the run."""
        return self.warm_up_s + self.measured_s + TAIL_S


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a load meets: messages waiting in another priority, a session with an old snapshot, what its
    queues keep of messages that are over; how its clients want messages delivered, whether they block, and
    whether they have a durable state."""

    backlog: int = 0
    old_snapshot: bool = False
    delivery: Delivery = "once"
    blocking: bool = False
    state: bool = False
    history: History = "metadata"


NO_CONDITIONS: Final = Conditions()


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies of one kind of request, in seconds; 0 where there was none."""

    median_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run gave. A message counts when it was put, with `put-read` when it was taken."""

    per_second: float
    series: list[int]
    put: Latency
    take: Latency
    cpu_us: dict[str, float]
    """Microseconds of CPU per message, by tier."""
    cpu_us_thirds: dict[str, list[float]]
    """The same in each third of the run."""
    audit: Balance
    errors: dict[str, int]


def summarise(
    tally: Tally, workload: Workload, window: Window, usage: Mapping[str, Sequence[float]], audit: Balance
) -> Measurement:
    """Turn the records of a run into its figures."""
    counted = tally.puts if workload == "put" else tally.takes
    messages = completed(counted, window)
    in_thirds = [completed(counted, third) for third in window.thirds()]
    return Measurement(
        per_second=messages / window.seconds,
        series=series(counted, window),
        put=_latency(tally.puts, window),
        take=_latency(tally.takes, window),
        cpu_us={tier: _microseconds(sum(seconds), messages) for tier, seconds in usage.items()},
        cpu_us_thirds={
            tier: [_microseconds(*part) for part in zip(seconds, in_thirds, strict=True)]
            for tier, seconds in usage.items()
        },
        audit=audit,
        errors=dict(tally.errors),
    )


def _microseconds(seconds: float, messages: int) -> float:
    return 1e6 * seconds / max(1, messages)


def _latency(record: Record, window: Window) -> Latency:
    ordered = latencies(record, window)
    return Latency(percentile(ordered, 0.5), percentile(ordered, 0.99))
