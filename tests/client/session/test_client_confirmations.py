"""The account of what is to be confirmed, by itself."""

import pytest
from pydantic import SecretStr, ValidationError

from telesto.client.bookkeeping.confirmations import CONFIRM_ITEMS_MAX, Confirmations, ConfirmContents
from telesto.client.bookkeeping.received_messages import RELEASE_ITEMS_MAX
from telesto.middleware.common.settings import ServerSettings


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


@pytest.mark.parametrize("items", [CONFIRM_ITEMS_MAX, RELEASE_ITEMS_MAX])
def test_no_middleware_can_be_told_to_take_less_than_the_library_sends(items: int) -> None:
    with pytest.raises(ValidationError, match="max_references"):
        ServerSettings(database_url=SecretStr("postgresql://host"), max_references=items - 1)
