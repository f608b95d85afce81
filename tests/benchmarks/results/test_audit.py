"""The audit finds what is planted: losses, duplicates, strangers; it forgives doubt."""

from collections.abc import Sequence

import pytest

from telesto.benchmarks.results.audit import (
    EXAMPLES_MAX,
    NOTHING,
    Balance,
    Doubts,
    Stored,
    as_identities,
    audit,
)


def audited(
    acknowledged: Sequence[int],
    read: Sequence[int] = (),
    waiting: Sequence[int] = (),
    handed_over: Sequence[int] = (),
    doubtful: Sequence[int] = (),
) -> Balance:
    return audit(
        as_identities(acknowledged), as_identities(read), Stored(waiting, handed_over), Doubts(doubtful)
    )


def test_a_message_read_and_a_message_left_balance() -> None:
    found = audited((1, 2, 3), read=(1,), waiting=(3,), handed_over=(2,))
    assert found.clean
    assert found == Balance(3, 1, 1, in_doubt=1, lost=0, duplicated=0, out_of_order=None, foreign=0)


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
