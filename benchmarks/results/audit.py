"""The audit at the end of a run: what was put, handed over, left, lost, duplicated, foreign, in doubt.

Clients say what was acknowledged and what they were handed, the database says what is still there. Between
them every acknowledged message must be exactly once. What one slot was handed of one stream and priority must
have come in the order in which it was put.

Identities are counted without sorting: the sequences of a stream are dense, so an identity is a place in an
array. A run of hours has tens of millions of messages, and sorting their identities takes fifty times as
long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self

import numpy as np

from telesto.benchmarks.load.bodies import KEY_FACTOR, KEY_SHIFT, SEQUENCE_BITS, SEQUENCE_MASK
from telesto.benchmarks.load.recorder import IN_ORDER, PUTS, TAKES, Operation, Records

Identities = np.ndarray[Any, np.dtype[np.uint64]]
Counts = np.ndarray[Any, np.dtype[np.uint8]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

COUNT_MAX: Final = 255
_SHIFT: Final = np.uint64(SEQUENCE_BITS)
_MASK: Final = np.uint64(SEQUENCE_MASK)


class IdentitySpace:
    """The identities that some puts had, each with a place of its own."""

    def __init__(self, identities: Identities) -> None:
        streams, sequences = _parts(identities)
        self._streams = np.unique(streams)
        sizes = np.zeros(len(self._streams), np.int64)
        np.maximum.at(sizes, np.searchsorted(self._streams, streams), sequences + 1)
        self._sizes = sizes
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def count(self, identities: Identities) -> tuple[Counts, Identities]:
        """Count how often each identity occurs, up to COUNT_MAX; return also those outside of the space."""
        streams, sequences = _parts(identities)
        at = np.searchsorted(self._streams, streams)
        known = at < len(self._streams)
        at[~known] = 0
        if len(self._streams):
            known &= (self._streams[at] == streams) & (sequences < self._sizes[at])
        places = self._offsets[at[known]] + sequences[known]
        counts = np.bincount(places, minlength=len(self))
        return np.minimum(counts, COUNT_MAX).astype(np.uint8), identities[~known]

    def identities(self, flags: Flags) -> Identities:
        """Return the identities at the places that are marked."""
        places = np.flatnonzero(flags)
        at = np.searchsorted(self._offsets, places, side="right") - 1
        sequences = (places - self._offsets[at]).astype(np.uint64)
        identities: Identities = (self._streams[at].astype(np.uint64) << _SHIFT) | sequences
        return identities


def streams_of(identities: Identities) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the streams, in the smallest type that holds them: short ones are sorted many times faster."""
    streams = (identities >> _SHIFT).astype(np.uint32)
    return shortened(streams)


def key_numbers_of(identities: Identities, keys: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return which of `keys` partition keys each message has, as `bodies.key_number_of` says it."""
    spread = identities * np.uint64(KEY_FACTOR)
    return ((spread >> np.uint64(KEY_SHIFT)) % np.uint64(keys)).astype(np.uint32)


def shortened(numbers: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the numbers in 16 bits if they all have so few."""
    if len(numbers) and int(numbers.max()) > np.iinfo(np.uint16).max:
        return numbers
    return numbers.astype(np.uint16)


def _parts(
    identities: Identities,
) -> tuple[np.ndarray[Any, np.dtype[np.uint32]], np.ndarray[Any, np.dtype[np.int64]]]:
    streams = (identities >> _SHIFT).astype(np.uint32)
    return streams, (identities & _MASK).astype(np.int64)


EXAMPLES_MAX: Final = 5
"""How many of the messages concerned an audit names."""
NO_IDENTITIES: Final[Identities] = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of one run, in messages; for topics in deliveries, one for each subscriber.

    Attributes:
        put: acknowledged puts, the backlog included; for topics times the subscribers.
        handed_over: messages that were read or acknowledged by consumers, each time counted.
        left: messages that are still there for the next reader.
        in_doubt: puts whose outcome their client never learned, acknowledgements likewise, and messages whose
            hand-over did not reach the client; each may have been done or not.
        lost: acknowledged and not to be found anywhere.
        duplicated: handed over more than once, or handed over and still there.
        out_of_order: handed over after a later one of the same stream and priority, to the same slot; None
            where the order was not recorded.
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
        disorder: what came out of order; None if the order was not recorded.
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
    late = NO_IDENTITIES if disorder is None else disorder
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


def balance_of_queues(
    records: Sequence[Records], backlog: Identities, stored: Stored, doubts: Doubts, keys: int = 0
) -> Balance:
    """Compare what clients recorded with what the database holds; messages have `keys` partition keys."""
    acknowledged = np.concatenate([_identities(records, PUTS), backlog])
    taken = _identities(records, TAKES)
    return audit(acknowledged, taken, stored, doubts, out_of_order(records, keys))


def balance_of_topic(
    records: Sequence[Records],
    subscriber_slot: int,
    published: Identities,
    left: Identities,
    doubtful_puts: Sequence[int],
) -> Balance:
    """Compare what one subscriber got with what was put to its topic.

    `left` are the identities of the messages that the database still has for it. What it got last may be
    among them: it is confirmed by the next get.
    """
    of_subscriber = [part[part["slot"] == subscriber_slot] for part in records]
    got = _identities(of_subscriber, (Operation.GET,))
    stored = Stored(np.setdiff1d(left, got))
    return audit(published, got, stored, Doubts(doubtful_puts), out_of_order(of_subscriber))


def published_in(records: Sequence[Records], slots: Iterable[int]) -> Identities:
    """Return the identities that some slots put to topics."""
    wanted = np.array(sorted(slots), np.uint32)
    return _identities([part[np.isin(part["slot"], wanted)] for part in records], (Operation.PUBLISH,))


def out_of_order(records: Sequence[Records], keys: int = 0) -> Identities:
    """Return the messages that came to a slot after a later one of the same stream, priority and key.

    What came back to its queue, marked redelivered, is as late as it may be.
    """
    found = [NO_IDENTITIES]
    for part in records:
        # Consumers' deliveries are the order in which messages came; their acknowledgements are not.
        places = np.flatnonzero(np.isin(part["operation"], IN_ORDER) & (part["redelivered"] == 0))
        slots = shortened(part["slot"][places])
        order = np.argsort(slots, kind="stable")
        ends = np.flatnonzero(np.diff(slots[order])) + 1
        for of_slot in np.split(places[order], ends):
            found.append(_late(part["identity"][of_slot], part["priority"][of_slot], keys))
    return np.concatenate(found)


def _late(identities: Identities, priorities: Records, keys: int) -> Identities:
    """Return what came to one slot below an earlier identity of its stream, priority and key."""
    late = [NO_IDENTITIES]
    for priority in np.unique(priorities):
        of_priority = identities[priorities == priority]
        chosen = [of_priority]
        if keys:
            key_numbers = shortened(key_numbers_of(of_priority, keys))
            order = np.argsort(key_numbers, kind="stable")
            ends = np.flatnonzero(np.diff(key_numbers[order])) + 1
            chosen = np.split(of_priority[order], ends)
        for each in chosen:
            order = np.argsort(streams_of(each), kind="stable")
            by_stream = each[order]
            # Streams rise, so that the greatest identity so far is one of the same stream.
            late.append(by_stream[by_stream < np.maximum.accumulate(by_stream)])
    return np.concatenate(late)


def _identities(records: Sequence[Records], operations: Iterable[Operation]) -> Identities:
    wanted = [int(operation) for operation in operations]
    parts = [part["identity"][np.isin(part["operation"], wanted)] for part in records]
    return np.concatenate([NO_IDENTITIES, *parts])
