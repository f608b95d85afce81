"""The balance finds what is planted: losses, duplicates, disorder, what was never put, what is in doubt."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from telesto.benchmarks.load.bodies import BACKLOG_STREAM, key_number_of
from telesto.benchmarks.load.recorder import Operation, Recorder, Records, read_records
from telesto.benchmarks.results.audit import (
    NO_IDENTITIES,
    Balance,
    Doubts,
    Identities,
    IdentitySpace,
    Stored,
    balance_of_queues,
    balance_of_topic,
    key_numbers_of,
    published_in,
)

PUT, TAKE, ACK, DELIVERY = Operation.PUT, Operation.TAKE, Operation.ACK, Operation.DELIVERY
NOTHING_STORED = Stored(NO_IDENTITIES, NO_IDENTITIES)
READER = 9

Event = tuple[Operation, int, int]
"""An operation, its slot, the identity."""


def identity(stream: int, sequence: int) -> int:
    return (stream << 32) + sequence


def ids(*identities: int) -> Identities:
    return np.array(identities, np.uint64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records"


def recorded(
    path: Path, events: Sequence[Event], priority: int = 5, redelivered: Sequence[int] = ()
) -> list[Records]:
    with Recorder(path) as recorder:
        for operation, slot, each in events:
            recorder.add(
                operation, slot, each, 0.0, 0.0, 1.0, priority=priority, redelivered=each in redelivered
            )
    return [read_records(path)]


def put_and_taken(count: int) -> list[Event]:
    """Two streams, read by one slot."""
    everything = [identity(stream, sequence) for sequence in range(count) for stream in (1, 2)]
    return [(PUT, each >> 32, each) for each in everything] + [(TAKE, READER, each) for each in everything]


def balance(path: Path, events: Sequence[Event], stored: Stored = NOTHING_STORED) -> Balance:
    return balance_of_queues(recorded(path, events), NO_IDENTITIES, stored, Doubts())


def test_what_is_right_is_clean(path: Path) -> None:
    found = balance(path, put_and_taken(100))
    assert found == Balance(200, 200, 0, 0, 0, 0, 0, 0)
    assert found.clean


def test_an_empty_run_is_clean(path: Path) -> None:
    assert balance(path, []).clean


def test_what_is_left_and_the_backlog_count(path: Path) -> None:
    backlog = ids(identity(7, 0), identity(7, 1), identity(7, 2))
    events = [*put_and_taken(3), (PUT, 1, identity(1, 3)), (TAKE, READER, identity(7, 0))]
    stored = Stored(ids(identity(1, 3), identity(7, 1), identity(7, 2)), NO_IDENTITIES)
    found = balance_of_queues(recorded(path, events), backlog, stored, Doubts())
    assert found.clean
    assert (found.put, found.handed_over, found.left) == (10, 7, 3)


def test_a_planted_loss_is_found(path: Path) -> None:
    events = put_and_taken(50)
    events.remove((TAKE, READER, identity(2, 30)))
    found = balance(path, events)
    assert not found.clean
    assert (found.lost, found.duplicated, found.out_of_order) == (1, 0, 0)
    assert found.examples == (identity(2, 30),)


def test_a_lost_message_of_the_backlog_is_found(path: Path) -> None:
    found = balance_of_queues(recorded(path, []), ids(identity(7, 0)), NOTHING_STORED, Doubts())
    assert found.lost == 1


@pytest.mark.parametrize("slot", [READER, READER + 1])
def test_a_planted_duplicate_is_found(path: Path, slot: int) -> None:
    found = balance(path, [*put_and_taken(50), (TAKE, slot, identity(2, 49))])
    assert (found.lost, found.duplicated) == (0, 1)
    assert not found.clean


def test_what_was_read_and_is_still_there_is_a_duplicate(path: Path) -> None:
    found = balance(path, put_and_taken(50), Stored(ids(identity(1, 10)), NO_IDENTITIES))
    assert (found.lost, found.duplicated) == (0, 1)


def test_planted_disorder_is_found(path: Path) -> None:
    events = put_and_taken(50)
    first, second = (events.index((TAKE, READER, identity(1, sequence))) for sequence in (20, 30))
    events[first], events[second] = events[second], events[first]
    found = balance(path, events)
    # Those between the two, and the one that came last of all.
    assert (found.lost, found.duplicated, found.out_of_order) == (0, 0, 10)
    assert not found.clean


def test_order_is_that_of_one_stream_priority_and_slot(path: Path) -> None:
    events = [(PUT, 1, identity(1, 0)), (PUT, 1, identity(1, 1)), (PUT, 2, identity(2, 0))]
    reads = [(TAKE, 8, identity(1, 1)), (TAKE, READER, identity(2, 0)), (TAKE, READER, identity(1, 0))]
    assert balance(path, [*events, *reads]).clean
    higher = recorded(path.with_suffix(".higher"), [(TAKE, READER, identity(1, 1))], priority=6)
    lower = recorded(path.with_suffix(".lower"), [*events, (TAKE, READER, identity(1, 0)), reads[1]])
    assert balance_of_queues(higher + lower, NO_IDENTITIES, NOTHING_STORED, Doubts()).clean


def test_with_keys_order_is_that_of_one_key(path: Path) -> None:
    keys = 3
    by_key: dict[int, list[int]] = {}
    for sequence in range(20):
        by_key.setdefault(key_number_of(identity(1, sequence), keys), []).append(identity(1, sequence))
    assert len(by_key) == keys
    puts = [(PUT, 1, identity(1, sequence)) for sequence in range(20)]
    key_after_key = [(TAKE, READER, each) for of_key in by_key.values() for each in of_key]

    def late(takes: Sequence[Event]) -> int | None:
        records = recorded(path, [*puts, *takes])
        return balance_of_queues(records, NO_IDENTITIES, NOTHING_STORED, Doubts(), keys).out_of_order

    assert late(key_after_key) == 0
    assert balance(path, [*puts, *key_after_key]).out_of_order
    first, second = (key_after_key.index((TAKE, READER, each)) for each in by_key[0][:2])
    key_after_key[first], key_after_key[second] = key_after_key[second], key_after_key[first]
    assert late(key_after_key) == 1


def test_what_was_given_back_may_be_late(path: Path) -> None:
    events = [(PUT, 1, identity(1, 0)), (PUT, 1, identity(1, 1))]
    pushed = [(DELIVERY, READER, identity(1, 1)), (DELIVERY, READER, identity(1, 0))]
    acknowledged = [(ACK, READER, identity(1, 1)), (ACK, READER, identity(1, 0))]
    everything = [*events, *pushed, *acknowledged]
    first = balance_of_queues(recorded(path, everything), NO_IDENTITIES, NOTHING_STORED, Doubts())
    again = recorded(path.with_suffix(".again"), everything, redelivered=[identity(1, 0)])
    assert first.out_of_order == 1
    assert balance_of_queues(again, NO_IDENTITIES, NOTHING_STORED, Doubts()).clean


def test_what_nobody_put_is_foreign(path: Path) -> None:
    found = balance(path, [*put_and_taken(5), (TAKE, READER, identity(3, 0))])
    assert found.foreign == 1
    assert not found.clean


def test_doubt_is_no_fault(path: Path) -> None:
    events = put_and_taken(5)
    events.remove((PUT, 1, identity(1, 4)))
    events.remove((TAKE, READER, identity(2, 4)))
    events.append((PUT, 2, identity(2, 5)))
    stored = Stored(NO_IDENTITIES, ids(identity(2, 5)))
    doubts = Doubts(puts=[identity(1, 4)], takes=[identity(2, 4)])
    found = balance_of_queues(recorded(path, events), NO_IDENTITIES, stored, doubts)
    assert found.clean
    # A put that failed, an acknowledgement that failed, a hand-over that did not arrive.
    assert found.in_doubt == 3


def topic(path: Path, got: Sequence[int], left: Identities = NO_IDENTITIES) -> Balance:
    published = [identity(1, sequence) for sequence in range(10)]
    records = recorded(
        path,
        [(Operation.PUBLISH, 1, each) for each in published]
        + [(Operation.GET, READER, identity(1, sequence)) for sequence in got],
    )
    return balance_of_topic(records, READER, published_in(records, [1]), left, ())


def test_a_subscriber_has_to_get_everything_once_in_order(path: Path) -> None:
    whole = Balance(10, 10, 0, 0, 0, 0, 0, 0)
    assert topic(path, range(10)) == whole
    assert topic(path, range(8), ids(identity(1, 8), identity(1, 9))) == replace(whole, handed_over=8, left=2)
    # The last that it got is confirmed by the next get only.
    assert topic(path, range(10), ids(identity(1, 9))) == whole
    assert topic(path, [0, 1, 2, 4, 5, 6, 7, 8, 9]).lost == 1
    assert topic(path, [*range(10), 9]).duplicated == 1
    assert topic(path, [0, 2, 1, *range(3, 10)]).out_of_order == 1


def test_balances_of_subscribers_add_up(path: Path) -> None:
    both = topic(path, range(10)) + topic(path, range(9))
    assert (both.put, both.handed_over, both.lost) == (20, 19, 1)
    assert both.examples == (identity(1, 9),)


def test_identities_are_counted_whatever_their_order_and_their_gaps() -> None:
    members = ids(identity(5, 2), identity(BACKLOG_STREAM, 0), identity(0, 0), identity(70_000, 1))
    space = IdentitySpace(members)
    # Each stream has places up to its last sequence.
    assert len(space) == 3 + 1 + 1 + 2
    asked = ids(identity(70_000, 1), identity(5, 2), identity(5, 2), identity(5, 0))
    outside = ids(identity(5, 3), identity(6, 0), identity(2**32 - 1, 0))
    counts, unknown = space.count(np.concatenate([outside, asked]))
    assert list(unknown) == list(outside)
    assert list(space.identities(counts == 2)) == [identity(5, 2)]
    assert list(space.identities(counts == 1)) == [identity(5, 0), identity(70_000, 1)]
    many, _ = space.count(np.repeat(members[:1], 1000))
    assert many.max() == 255


def test_both_ways_to_name_a_key_agree() -> None:
    streams = (0, 5, BACKLOG_STREAM)
    members = ids(*(identity(stream, sequence) for stream in streams for sequence in range(50)))
    numbers = [key_number_of(int(each), 7) for each in members]
    assert list(key_numbers_of(members, 7)) == numbers
    assert set(numbers) == set(range(7))


def test_an_empty_space_knows_nobody() -> None:
    counts, unknown = IdentitySpace(NO_IDENTITIES).count(ids(identity(1, 1)))
    assert len(counts) == 0
    assert list(unknown) == [identity(1, 1)]
