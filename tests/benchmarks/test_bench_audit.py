"""The audit finds what is planted: losses, duplicates, strangers; it forgives doubt."""

from array import array
from collections.abc import Sequence

import pytest

from telesto.benchmarks.audit import EXAMPLES_MAX, NOTHING, Balance, Stored, audit_tally
from telesto.benchmarks.bodies import BodyMaker, identity_of
from telesto.benchmarks.tally import Tally


def audited(
    acknowledged: Sequence[int],
    read: Sequence[int] = (),
    waiting: Sequence[int] = (),
    handed_over: Sequence[int] = (),
    doubtful: Sequence[int] = (),
) -> Balance:
    tally = Tally(doubtful=array("Q", doubtful))
    tally.puts.add_batch(acknowledged, 0.0, 1.0)
    tally.takes.add_batch(read, 0.0, 1.0)
    return audit_tally(tally, Stored(waiting, handed_over))


def test_a_message_read_and_a_message_left_balance() -> None:
    found = audited((1, 2, 3), read=(1,), waiting=(3,), handed_over=(2,))
    assert found.clean
    assert found == Balance(3, 1, 1, in_doubt=1, lost=0, duplicated=0, out_of_order=None, foreign=0)


def test_a_backlog_is_audited_like_what_was_put() -> None:
    tally = Tally()
    tally.puts.add_batch([1], 0.0, 1.0)
    found = audit_tally(tally, Stored(array("Q", [1])), backlog=array("Q", [2, 3]))
    assert (found.put, found.left, found.lost, found.examples) == (3, 1, 2, (2, 3))
    # An audit keeps none of the arrays, which grow no more while somebody looks at them.
    tally.puts.add_batch([2], 0.0, 1.0)


def test_an_acknowledged_message_that_is_nowhere_is_lost() -> None:
    found = audited((1, 2, 3), read=(1,), waiting=(3,))
    assert (found.lost, found.duplicated, found.examples) == (1, 0, (2,))
    assert not found.clean


@pytest.mark.parametrize(
    ("read", "waiting"),
    [((1, 1), ()), ((1,), (1,)), ((), (1, 1))],
    ids=["read twice", "read and still there", "there twice"],
)
@pytest.mark.parametrize("acknowledged", [(1,), ()], ids=["put", "foreign"])
def test_a_message_that_is_twice_somewhere_is_duplicated(
    acknowledged: tuple[int, ...], read: tuple[int, ...], waiting: tuple[int, ...]
) -> None:
    found = audited(acknowledged, read=read, waiting=waiting)
    assert (found.lost, found.duplicated, found.foreign) == (0, 1, int(not acknowledged))
    assert not found.clean


def test_a_message_handed_over_and_read_is_one_message() -> None:
    assert audited((1,), read=(1,), handed_over=(1,)).clean


@pytest.mark.parametrize("acknowledged", [(), (1,), (9,)], ids=["nothing", "before", "behind"])
@pytest.mark.parametrize(("read", "waiting"), [((7,), ()), ((), (7,))], ids=["read", "there"])
def test_a_message_that_nobody_put_is_foreign(
    acknowledged: tuple[int, ...], read: tuple[int, ...], waiting: tuple[int, ...]
) -> None:
    found = audited(acknowledged, read=read + acknowledged, waiting=waiting)
    assert (found.lost, found.duplicated, found.foreign, found.examples) == (0, 0, 1, (7,))
    assert not found.clean


@pytest.mark.parametrize("waiting", [(), (1,)])
def test_a_doubtful_message_may_be_there_or_not(waiting: tuple[int, ...]) -> None:
    found = audited((), doubtful=(1,), waiting=waiting)
    assert found.clean
    assert found.in_doubt == 1


def test_an_audit_names_a_bounded_number_of_messages() -> None:
    assert audited(range(100)).examples == tuple(range(EXAMPLES_MAX))


def test_an_order_that_one_run_did_not_look_at_is_not_known_of_both() -> None:
    unordered = audited((1,), waiting=(1,))
    assert (unordered + unordered).out_of_order is None
    assert (unordered + NOTHING).out_of_order is None
    assert (NOTHING + NOTHING).out_of_order == 0


def test_bodies_carry_their_identity() -> None:
    maker = BodyMaker(stream=3, size=20)
    first, second = maker.next(), maker.next()
    assert [identity for identity, _ in (first, second)] == [3 << 32, (3 << 32) + 1]
    assert [identity_of(body) for _, body in (first, second)] == [first[0], second[0]]
    assert {len(body) for _, body in (first, second)} == {20}


def test_bodies_too_short_for_an_identity_are_refused() -> None:
    with pytest.raises(ValueError, match="7 bytes"):
        BodyMaker(0, 7)
    with pytest.raises(ValueError, match="3 bytes"):
        identity_of(b"abc")
