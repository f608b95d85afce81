"""What came out of a run, for people: figures, and how long each kind of fault held up what it met."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from types import UnionType

from .checkers.checker import Verdict
from .clients.history import (
    Event,
    Fault,
    GetBegan,
    GetEnded,
    PublishBegan,
    PublishEnded,
    PutBegan,
    PutEnded,
    ReadBegan,
    ReadEnded,
    SettleBegan,
    SettleEnded,
    TakeBegan,
    TakeEnded,
)

#: What begins and ends a put, of a message to a queue or a topic, and any call.
_PUT = (PutBegan | PublishBegan, PutEnded | PublishEnded)
_CALL = (
    PutBegan | PublishBegan | ReadBegan | GetBegan | TakeBegan | SettleBegan,
    PutEnded | PublishEnded | ReadEnded | GetEnded | TakeEnded | SettleEnded,
)


@dataclass(frozen=True, slots=True)
class Span:
    """A call: when it began and ended, by the monotonic clock in seconds; infinity if it never returned."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Recoveries:
    """What one kind of fault did.

    Attributes:
        kind: the fault.
        struck: how often it had an effect.
        met: how many puts were under way when it struck, all together.
        held_s: per strike that met one, how long it took until all of these were answered; seconds. Other
            faults that were at work at the same time are in it.
    """

    kind: str
    struck: int
    met: int
    held_s: list[float]


@dataclass(slots=True)
class Report:
    """What came out of a run.

    Attributes:
        verdict: of the histories.
        failures: everything else that must not be.
        faults: what struck.
        recoveries: per kind of fault.
        warnings: the middlewares' own, counted.
    """

    verdict: Verdict
    failures: list[str]
    faults: list[Fault]
    recoveries: list[Recoveries]
    warnings: Counter[str]

    @property
    def problems(self) -> list[str]:
        """All that must not be; none if all is well."""
        return self.verdict.violations + self.failures

    def lines(self) -> list[str]:
        """The report for people."""
        figures = ", ".join(f"{name} {count:,}" for name, count in self.verdict.figures.items())
        return [
            f"  {figures}",
            f"  faults {sum(each.struck for each in self.recoveries):,}, "
            f"slowest call {self.verdict.slowest_s:.1f} s",
            "  warnings: " + ", ".join(f"{event} {count}" for event, count in sorted(self.warnings.items())),
            *table(self.recoveries),
            *(f"  PROBLEM {problem}" for problem in self.problems),
        ]


def table(recoveries: Iterable[Recoveries]) -> list[str]:
    """The kinds of faults as a table in Markdown."""
    rows = [
        f"| {each.kind} | {each.struck} | {each.met} | {_seconds(each.held_s, median)} "
        f"| {_seconds(each.held_s, max)} |"
        for each in recoveries
    ]
    header = "| fault | struck | puts under way | until all were answered, median s | longest s |"
    return [header, "|---|---:|---:|---:|---:|", *rows]


def struck_kinds(events: list[Event]) -> set[str]:
    """The kinds of faults that had an effect while a call was under way."""
    spans = spans_of(events, *_CALL)
    return {
        fault.client
        for fault in events
        if isinstance(fault, Fault) and fault.effect and any(s.began < fault.at < s.ended for s in spans)
    }


def recoveries_of(events: list[Event]) -> list[Recoveries]:
    """What each kind of fault did, in the order of their names."""
    puts = sorted(spans_of(events, *_PUT), key=lambda span: span.began)
    begins = [span.began for span in puts]
    longest = max((span.ended - span.began for span in puts if span.ended != float("inf")), default=0.0)
    struck: dict[str, list[list[float]]] = {}
    for fault in events:
        if isinstance(fault, Fault) and fault.effect:
            near = puts[bisect_left(begins, fault.at - longest) : bisect_right(begins, fault.at)]
            under_way = [span.ended - fault.at for span in near if fault.at < span.ended != float("inf")]
            struck.setdefault(fault.client, []).append(under_way)
    return [
        Recoveries(kind, len(met), sum(map(len, met)), [max(under_way) for under_way in met if under_way])
        for kind, met in sorted(struck.items())
    ]


def spans_of(events: list[Event], first: UnionType, last: UnionType) -> list[Span]:
    """The calls between two kinds of events."""
    began: dict[tuple[str, int, int], float] = {}
    spans = []
    for event in sorted(events, key=lambda event: event.at):
        if not isinstance(event, first | last):
            continue
        call = (event.client, event.run, event.number)  # type: ignore[attr-defined]
        if isinstance(event, first):
            began.setdefault(call, event.at)
        elif (at := began.pop(call, None)) is not None:
            spans.append(Span(at, event.at))
    return spans + [Span(at, float("inf")) for at in began.values()]


def _seconds(values: list[float], choose: Callable[[list[float]], float]) -> str:
    return f"{choose(values):.2f}" if values else ""
