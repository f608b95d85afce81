"""The audit at the end of a run: what was put, handed over, left, lost, duplicated, foreign, in doubt.

Clients say what was acknowledged and what they were handed, the database says what is still there. Between
them every acknowledged message must be exactly once. Whoever records the order of what came says what was out
of order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self

import numpy as np

from telesto.benchmarks.results.identity_space import Identities, IdentitySpace

EXAMPLES_MAX: Final = 5
"""How many of the messages concerned an audit names."""
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
        out_of_order: handed over after a later one of the same stream and priority, to the same slot; None
            where nobody looks at the order.
        foreign: found without ever having been put.
        examples: identities of some of the messages concerned.
    """

    put: int
    handed_over: int
    left: int
    in_doubt: int
    lost: int
    duplicated: int
    out_of_order: int | None
    foreign: int
    examples: tuple[int, ...] = ()

    @property
    def clean(self) -> bool:
        """Nothing is wrong."""
        return not (self.lost or self.duplicated or self.out_of_order or self.foreign)

    def __add__(self, other: Self) -> Balance:
        counts = {name: _sum(getattr(self, name), getattr(other, name)) for name in COLUMNS}
        return Balance(**counts, examples=(self.examples + other.examples)[:EXAMPLES_MAX])  # type: ignore[arg-type]

    def as_plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self) | {"examples": list(self.examples), "clean": self.clean}


COLUMNS: Final = tuple(each.name for each in fields(Balance) if each.name != "examples")
"""What a balance counts, as tables show it."""
UNORDERED_COLUMNS: Final = tuple(name for name in COLUMNS if name != "out_of_order")
"""The same of an audit that does not look at the order."""
NOTHING: Final = Balance(0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Stored:
    """What the database holds when the run is over.

    Attributes:
        waiting: identities of what is ready to be read, or will be.
        handed_over: of what was handed over and not confirmed: it may have reached its reader.
    """

    waiting: Sequence[int] | Identities
    handed_over: Sequence[int] | Identities = ()


@dataclass(frozen=True, slots=True)
class Doubts:
    """What clients could not know.

    Attributes:
        puts: identities of messages whose puts failed.
        takes: identities of messages whose acknowledgements failed.
    """

    puts: Sequence[int] = ()
    takes: Sequence[int] = ()


def audit(
    acknowledged: Identities,
    taken: Identities,
    stored: Stored,
    doubts: Doubts,
    disorder: Identities | None = None,
) -> Balance:
    """Compare what clients say with what is stored.

    Args:
        acknowledged: what was put, each with its repetitions, the backlog included.
        taken: what came to clients, each with its repetitions.
        stored: what is there at the end.
        doubts: what clients could not know; none of it is a fault.
        disorder: what came out of order; None if nobody looked.
    """
    doubtful_puts, doubtful_takes = as_identities(doubts.puts), as_identities(doubts.takes)
    waiting = as_identities(stored.waiting)
    space = IdentitySpace(np.concatenate([acknowledged, doubtful_puts]))
    put, _ = space.count(acknowledged)
    maybe_put, _ = space.count(doubtful_puts)
    took, never_put = space.count(taken)
    here, never_put_here = space.count(waiting)
    handed, _ = space.count(as_identities(stored.handed_over))
    maybe_taken, _ = space.count(doubtful_takes)
    found = (took > 0) | (here > 0)
    lost = space.identities((put > 0) & ~found & (handed == 0) & (maybe_taken == 0))
    strangers, times = np.unique(np.concatenate([never_put, never_put_here]), return_counts=True)
    # A message that was handed over and is still there counts twice, like one that was handed over twice.
    twice = space.identities((took > 1) | (here > 1) | ((took > 0) & (here > 0)))
    twice = np.concatenate([twice, strangers[times > 1]])
    foreign = np.concatenate([space.identities(found & (put == 0) & (maybe_put == 0)), strangers])
    unseen = int(np.count_nonzero((handed > 0) & (took == 0)))
    late = NOBODY if disorder is None else disorder
    return Balance(
        put=len(acknowledged),
        handed_over=len(taken),
        left=len(waiting),
        in_doubt=len(doubtful_puts) + len(doubtful_takes) + unseen,
        lost=len(lost),
        duplicated=len(twice),
        out_of_order=None if disorder is None else len(disorder),
        foreign=len(foreign),
        examples=_examples(lost, twice, late, foreign),
    )


def as_identities(numbers: Sequence[int] | Identities) -> Identities:
    """Return identities as the audit works on them."""
    return np.asarray(numbers, np.uint64)


def headings(columns: Sequence[str]) -> list[str]:
    """Return what tables call these columns."""
    return [column.replace("_", " ") for column in columns]


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _examples(*concerned: Identities) -> tuple[int, ...]:
    return tuple(int(identity) for identity in np.concatenate(concerned)[:EXAMPLES_MAX])
