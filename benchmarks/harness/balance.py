"""The balance at the end of a run: what was put, handed over, lost, duplicated, out of order, in doubt.

The clients' records say what was acknowledged and what they were handed, the database says what is still
there. Between them every acknowledged message must be exactly once, and what one lane was handed of one
stream and priority must have come in the order in which it was put.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self

import numpy as np

from telesto.benchmarks.harness.identity_space import Identities, IdentitySpace, shortened, streams_of
from telesto.benchmarks.workloads.operations import IN_ORDER, PUTS, TAKES, Operation
from telesto.benchmarks.workloads.recorder import Records

EXAMPLES_MAX: Final = 5
NOBODY: Final[Identities] = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of one run, in messages; for topics in deliveries, one for each subscriber.

    Attributes:
        put: acknowledged puts, the backlog included; for topics times the subscribers.
        handed_over: messages that were read or acknowledged by consumers, each time counted.
        left: messages that are still there for whoever reads next.
        in_doubt: puts whose outcome their client never learned, acknowledgements likewise, and messages whose
            hand-over did not reach the client; each may have been done or not.
        lost: acknowledged and not to be found anywhere.
        duplicated: handed over more than once, or handed over and still there.
        out_of_order: handed over after a later one of the same stream and priority, to the same lane.
        foreign: found without ever having been put.
        examples: identities of some of the messages concerned.
    """

    put: int
    handed_over: int
    left: int
    in_doubt: int
    lost: int
    duplicated: int
    out_of_order: int
    foreign: int
    examples: tuple[int, ...] = ()

    @property
    def clean(self) -> bool:
        """Nothing is wrong."""
        return not (self.lost or self.duplicated or self.out_of_order or self.foreign)

    def __add__(self, other: Self) -> Balance:
        counts = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(self)
            if each.name != "examples"
        }
        return Balance(**counts, examples=(self.examples + other.examples)[:EXAMPLES_MAX])

    def as_plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self) | {"examples": list(self.examples), "clean": self.clean}


NOTHING: Final = Balance(0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Stored:
    """What the database holds when the run is over.

    Attributes:
        waiting: identities of what is ready to be read, or will be.
        handed_over: of what was handed over and not confirmed: it may have reached its reader.
    """

    waiting: Identities
    handed_over: Identities


@dataclass(frozen=True, slots=True)
class Doubts:
    """What clients could not know.

    Attributes:
        puts: identities of messages whose puts failed.
        takes: identities of messages whose acknowledgements failed.
    """

    puts: Sequence[int] = ()
    takes: Sequence[int] = ()


def balance_of_queues(
    records: Sequence[Records], backlog: Identities, stored: Stored, doubts: Doubts
) -> Balance:
    """Compare what clients recorded with what the database holds."""
    acknowledged = np.concatenate([_identities(records, PUTS), backlog])
    taken = _identities(records, TAKES)
    return _balance(acknowledged, taken, stored, doubts, out_of_order(records))


def balance_of_topic(
    records: Sequence[Records],
    subscriber_lane: int,
    published: Identities,
    left: Identities,
    doubtful_puts: Sequence[int],
) -> Balance:
    """Compare what one subscriber got with what was put to its topic.

    `left` are the identities of the messages that the database still has for it. What it got last may be
    among them: it is confirmed by the next get.
    """
    of_subscriber = [part[part["lane"] == subscriber_lane] for part in records]
    got = _identities(of_subscriber, (Operation.GET,))
    left = np.setdiff1d(left, got)
    return _balance(published, got, Stored(left, NOBODY), Doubts(doubtful_puts), out_of_order(of_subscriber))


def _balance(
    acknowledged: Identities, taken: Identities, stored: Stored, doubts: Doubts, disorder: Identities
) -> Balance:
    doubtful_puts = _array(doubts.puts)
    space = IdentitySpace(np.concatenate([acknowledged, doubtful_puts]))
    put, _ = space.count(acknowledged)
    maybe_put, _ = space.count(doubtful_puts)
    took, never_put = space.count(taken)
    here, never_put_here = space.count(stored.waiting)
    handed, _ = space.count(stored.handed_over)
    maybe_taken, _ = space.count(_array(doubts.takes))
    found = (took > 0) | (here > 0)
    lost = space.identities((put > 0) & ~found & (handed == 0) & (maybe_taken == 0))
    # A message that was handed over and is still there counts twice, like one that was handed over twice.
    twice = space.identities((took > 1) | (here > 1) | ((took > 0) & (here > 0)))
    unknown = space.identities(found & (put == 0) & (maybe_put == 0))
    foreign = np.concatenate([unknown, np.unique(np.concatenate([never_put, never_put_here]))])
    unseen = int(np.count_nonzero((handed > 0) & (took == 0)))
    return Balance(
        put=len(acknowledged),
        handed_over=len(taken),
        left=len(stored.waiting),
        in_doubt=len(doubtful_puts) + len(doubts.takes) + unseen,
        lost=len(lost),
        duplicated=len(twice),
        out_of_order=len(disorder),
        foreign=len(foreign),
        examples=_examples(lost, twice, disorder, foreign),
    )


def published_in(records: Sequence[Records], lanes: Iterable[int]) -> Identities:
    """Return the identities that some lanes put to topics."""
    wanted = np.array(sorted(lanes), np.uint32)
    return _identities([part[np.isin(part["lane"], wanted)] for part in records], (Operation.PUBLISH,))


def out_of_order(records: Sequence[Records]) -> Identities:
    """Return the messages that came to a lane after a later one of the same stream and priority.

    What came back to its queue, marked redelivered, is as late as it may be.
    """
    found = [NOBODY]
    for part in records:
        # Consumers' deliveries are the order in which messages came; their acknowledgements are not.
        places = np.flatnonzero(np.isin(part["operation"], IN_ORDER) & (part["redelivered"] == 0))
        lanes = shortened(part["lane"][places])
        order = np.argsort(lanes, kind="stable")
        ends = np.flatnonzero(np.diff(lanes[order])) + 1
        for of_lane in np.split(places[order], ends):
            found.append(_late(part["identity"][of_lane], part["priority"][of_lane]))
    return np.concatenate(found)


def _late(identities: Identities, priorities: Records) -> Identities:
    """Return what came to one lane below an earlier identity of its stream and priority."""
    late = [NOBODY]
    for priority in np.unique(priorities):
        of_priority = identities[priorities == priority]
        order = np.argsort(streams_of(of_priority), kind="stable")
        by_stream = of_priority[order]
        # Streams rise, so that the greatest identity so far is one of the same stream.
        late.append(by_stream[by_stream < np.maximum.accumulate(by_stream)] if len(by_stream) else NOBODY)
    return np.concatenate(late)


def _identities(records: Sequence[Records], operations: Iterable[Operation]) -> Identities:
    wanted = [int(operation) for operation in operations]
    parts = [part["identity"][np.isin(part["operation"], wanted)] for part in records]
    return np.concatenate([NOBODY, *parts])


def _array(identities: Sequence[int]) -> Identities:
    return np.array(identities, np.uint64)


def _examples(*concerned: Identities) -> tuple[int, ...]:
    return tuple(int(identity) for identity in np.concatenate(concerned)[:EXAMPLES_MAX])
