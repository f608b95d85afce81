"""The account of what is to be confirmed, by itself."""

from __future__ import annotations

from telesto.client.confirmations import Confirmations, ConfirmContents


def test_what_was_carried_does_not_grow() -> None:
    confirmations = Confirmations(0.05)
    confirmations.session_began(1)
    carried = confirmations.carry(1)
    confirmations.take(1, 5, 0.0)
    assert carried == []
    for _ in range(20):
        confirmations.bring_back(ConfirmContents(carried, [], []), 1.0)
    assert confirmations.carry(1) == [5]


def test_what_was_brought_back_is_carried_again_in_order() -> None:
    confirmations = Confirmations(0.05)
    confirmations.session_began(1)
    for number in (1, 2):
        confirmations.take(1, number, 0.0)
    carried = confirmations.carry(1)
    confirmations.take(1, 3, 0.0)
    confirmations.bring_back(ConfirmContents(carried, [], []), 1.0)
    assert confirmations.carry(1) == [1, 2, 3]
