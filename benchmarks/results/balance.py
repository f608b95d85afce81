"""The balance of a run by the records of its clients: the audit, and whether messages came in order.

What one slot was handed of one stream and priority must have come in the order in which it was put.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from telesto.benchmarks.load.operations import IN_ORDER, PUTS, TAKES, Operation
from telesto.benchmarks.load.recorder import Records
from telesto.benchmarks.results.audit import NOBODY, Balance, Doubts, Stored, audit
from telesto.benchmarks.results.identity_space import Identities, key_numbers_of, shortened, streams_of


def balance_of_queues(
    records: Sequence[Records], backlog: Identities, stored: Stored, doubts: Doubts, keys: int = 0
) -> Balance:
    """Compare what clients recorded with what the database holds; messages have so many partition keys."""
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
    found = [NOBODY]
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
    late = [NOBODY]
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
    return np.concatenate([NOBODY, *parts])
