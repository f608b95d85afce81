"""Which messages of a consumer may be begun when several are worked on at a time."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

from telesto.client.models import Message


class Held(Protocol):
    """A message that a consumer was given."""

    message: Message

    @property
    def held(self) -> bool:
        """Tells whether the consumer has it still, as far as the client knows."""


HeldT = TypeVar("HeldT", bound=Held)


class Lanes(Generic[HeldT]):
    """Lets one message of each partition be begun at a time, in order, and any others at once."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, str], deque[HeldT]] = {}

    def arrived(self, leased: HeldT) -> bool:
        """A message came; returns whether it may be begun now, else it waits for its turn, or is lost."""
        if not leased.held:
            return False
        lane = _lane_of(leased)
        if lane is None:
            return True
        waiting = self._waiting.get(lane)
        if waiting is None:
            self._waiting[lane] = deque()
            return True
        waiting.append(leased)
        return False

    def ended(self, leased: HeldT) -> HeldT | None:
        """A message was worked on, or lost; returns the next one of its partition that is still held."""
        lane = _lane_of(leased)
        if lane is None:
            return None
        waiting = self._waiting[lane]
        while waiting:
            following = waiting.popleft()
            if following.held:
                return following
        del self._waiting[lane]
        return None

    def withdraw(self) -> list[HeldT]:
        """Takes what waits for a message before it: it will not be begun here."""
        withdrawn = [leased for waiting in self._waiting.values() for leased in waiting]
        for waiting in self._waiting.values():
            waiting.clear()
        return withdrawn


def _lane_of(leased: Held) -> tuple[int, str] | None:
    message = leased.message
    return None if message.partition_key is None else (message.sender_id, message.partition_key)
