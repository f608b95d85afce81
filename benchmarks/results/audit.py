"""The audit at the end of a run: messages put, delivered, left, lost, duplicated, foreign, in doubt.

Clients record what was acknowledged and delivered, and the database holds what is left. Together they must
account for every acknowledged message exactly once. What one slot received of one stream and priority must
have come in the order in which it was put.

Identities are counted without sorting: the sequences of a stream are dense, so an identity is an index into
an array. A run of hours has tens of millions of messages, and sorting their identities takes fifty times as
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
    """The identities of some puts, each with an index of its own."""

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
        """Count how often each identity occurs, up to COUNT_MAX; return also the unknown ones."""
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
        """Return the identities at the marked indexes."""
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
    """Return the partition key of each message, of `keys`, as `bodies.key_number_of` does."""
    spread = identities * np.uint64(KEY_FACTOR)
    return ((spread >> np.uint64(KEY_SHIFT)) % np.uint64(keys)).astype(np.uint32)


def shortened(numbers: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the numbers in 16 bits if all of them fit."""
    if len(numbers) and int(numbers.max()) > np.iinfo(np.uint16).max:
        return numbers
    return numbers.astype(np.uint16)


def _parts(
    identities: Identities,
) -> tuple[np.ndarray[Any, np.dtype[np.uint32]], np.ndarray[Any, np.dtype[np.int64]]]:
    streams = (identities >> _SHIFT).astype(np.uint32)
    return streams, (identities & _MASK).astype(np.int64)


EXAMPLES_MAX: Final = 5
"""The number of affected messages that an audit names."""
NO_IDENTITIES: Final[Identities] = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of one run, in messages; for topics in deliveries, one for each subscriber.

    Attributes:
        put: acknowledged puts and the backlog; for topics times the subscribers.
        handed_over: messages that were read or acknowledged by consumers; repetitions count.
        left: messages that the next reader would still get.
        in_doubt: puts and acknowledgements whose outcome their client never learned, and deliveries that did
            not reach the client.
        lost: acknowledged and not found anywhere.
        duplicated: delivered more than once, or delivered and still there.
        out_of_order: delivered to a slot after a later one of the same stream and priority; None if the order
            was not recorded.
        foreign: found although never put.
        examples: identities of some of the affected messages.
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
"""The counts of a balance, as tables show them."""
UNORDERED_COLUMNS: Final = tuple(name for name in COLUMNS if name != "out_of_order")
"""The counts of an audit without the order."""
NOTHING: Final = Balance(0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of the database after the run: identities that wait, and those delivered, unconfirmed."""

    waiting: Sequence[int] | Identities
    handed_over: Sequence[int] | Identities = ()


@dataclass(frozen=True, slots=True)
class Doubts:
    """The identities of puts and of acknowledgements that failed."""

    puts: Sequence[int] = ()
    takes: Sequence[int] = ()


def audit(
    acknowledged: Identities,
    taken: Identities,
    stored: Stored,
    doubts: Doubts,
    disorder: Identities | None = None,
) -> Balance:
    """Compare what clients recorded with what is stored.

    Args:
        acknowledged: everything put, with repetitions and the backlog.
        taken: everything that clients received, with repetitions.
        stored: the content of the database at the end.
        doubts: requests in doubt; none of them is a fault.
        disorder: messages that came out of order; None if the order was not recorded.
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
    # A message that was delivered and is still there is a duplicate, like one that was delivered twice.
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
    """Return identities as the array that the audit works on."""
    return np.asarray(numbers, np.uint64)


def headings(columns: Sequence[str]) -> list[str]:
    """Return the titles of these columns in tables."""
    return [column.replace("_", " ") for column in columns]


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _examples(*concerned: Identities) -> tuple[int, ...]:
    return tuple(int(identity) for identity in np.concatenate(concerned)[:EXAMPLES_MAX])


def balance_of_queues(
    records: Sequence[Records], backlog: Identities, stored: Stored, doubts: Doubts, keys: int = 0
) -> Balance:
    """Compare the clients' records with the database's content; messages have `keys` partition keys."""
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

    `left` are the identities of the messages that the database still has for it. Its last messages may be
    among them: the next get confirms them.
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

    Redelivered messages may come late.
    """
    found = [NO_IDENTITIES]
    for part in records:
        # Consumers' deliveries have the order in which messages came; their acknowledgements do not.
        places = np.flatnonzero(np.isin(part["operation"], IN_ORDER) & (part["redelivered"] == 0))
        slots = shortened(part["slot"][places])
        order = np.argsort(slots, kind="stable")
        ends = np.flatnonzero(np.diff(slots[order])) + 1
        for of_slot in np.split(places[order], ends):
            found.append(_late(part["identity"][of_slot], part["priority"][of_slot], keys))
    return np.concatenate(found)


def _late(identities: Identities, priorities: Records, keys: int) -> Identities:
    """Return the identities of one slot that came after a later one of their stream, priority and key."""
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
            # Streams rise, so the greatest identity so far belongs to the same stream.
            late.append(by_stream[by_stream < np.maximum.accumulate(by_stream)])
    return np.concatenate(late)


def _identities(records: Sequence[Records], operations: Iterable[Operation]) -> Identities:
    wanted = [int(operation) for operation in operations]
    parts = [part["identity"][np.isin(part["operation"], wanted)] for part in records]
    return np.concatenate([NO_IDENTITIES, *parts])
