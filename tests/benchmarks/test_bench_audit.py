"""The audit finds what is planted: losses, duplicates, strangers; it forgives doubt."""

from array import array

import pytest

from telesto.benchmarks.audit import EXAMPLES, Claims, compare
from telesto.benchmarks.bodies import BodyMaker, identities_of, identity_of


def claims(
    acknowledged: tuple[int, ...], read: tuple[int, ...] = (), doubtful: tuple[int, ...] = ()
) -> Claims:
    return Claims(array("Q", acknowledged), array("Q", doubtful), array("Q", read))


def test_a_message_read_and_a_message_left_balance() -> None:
    audit = compare(claims((1, 2, 3), read=(1,)), waiting=(3,), handed_over=(2,))
    assert audit.clean
    assert (audit.put, audit.read, audit.left) == (3, 1, 1)


def test_an_acknowledged_message_that_is_nowhere_is_lost() -> None:
    audit = compare(claims((1, 2, 3), read=(1,)), waiting=(3,), handed_over=())
    assert (audit.lost, audit.duplicated, audit.examples) == (1, 0, (2,))
    assert not audit.clean


@pytest.mark.parametrize(
    ("read", "waiting"),
    [((1, 1), ()), ((1,), (1,)), ((), (1, 1))],
    ids=["read twice", "read and still there", "there twice"],
)
def test_a_message_that_is_twice_somewhere_is_duplicated(
    read: tuple[int, ...], waiting: tuple[int, ...]
) -> None:
    audit = compare(claims((1,), read=read), waiting=waiting, handed_over=())
    assert (audit.lost, audit.duplicated) == (0, 1)


def test_a_message_handed_over_and_read_is_one_message() -> None:
    assert compare(claims((1,), read=(1,)), waiting=(), handed_over=(1,)).clean


def test_a_message_that_nobody_put_is_foreign() -> None:
    assert compare(claims(()), waiting=(7,), handed_over=()).foreign == 1


@pytest.mark.parametrize("waiting", [(), (1,)])
def test_a_doubtful_message_may_be_there_or_not(waiting: tuple[int, ...]) -> None:
    assert compare(claims((), doubtful=(1,)), waiting=waiting, handed_over=()).clean


def test_an_audit_names_a_bounded_number_of_messages() -> None:
    assert compare(claims(tuple(range(100))), (), ()).examples == tuple(range(EXAMPLES))


def test_bodies_carry_their_identity() -> None:
    maker = BodyMaker(stream=3, size=20)
    first, second = maker.next(), maker.next()
    assert [identity for identity, _ in (first, second)] == [3 << 32, (3 << 32) + 1]
    assert [identity_of(body) for _, body in (first, second)] == [first[0], second[0]]
    assert {len(body) for _, body in (first, second)} == {20}
    assert identities_of(first[1][:8] + second[1][:8]).tolist() == [first[0], second[0]]


def test_bodies_too_short_for_an_identity_are_refused() -> None:
    with pytest.raises(ValueError, match="7 bytes"):
        BodyMaker(0, 7)
    with pytest.raises(ValueError, match="3 bytes"):
        identity_of(b"abc")
    with pytest.raises(ValueError, match="left over"):
        identities_of(b"123456789")
