"""The calls that wait to be sent, in the order in which they were made."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from telesto.client.calls.queue_calls import WAITING, Call
from telesto.client.errors import TooManyCallsError


class WaitingCalls:
    """The line of calls. The hot path uses the attributes directly.

    Attributes:
        calls: those that wait, and some that have ended meanwhile.
        unsorted: a call came back or came late; ``sort`` brings it to its place.
        last_order: position among all calls of the client of the one made last.
    """

    def __init__(self, max_waiting: int) -> None:
        self.calls: deque[Call[Any]] = deque()
        self.unsorted = False
        self.last_order = 0
        self._max_waiting = max_waiting

    def check_space(self, call: Call[Any]) -> None:
        """Raises TooManyCallsError when no more call may wait."""
        self.drop_over()
        if len(self.calls) >= self._max_waiting:
            raise TooManyCallsError(
                f"{len(self.calls)} calls wait to be sent already; await some of them first",
                method=call.method,
            )

    def sort(self) -> None:
        """Has the calls stand in the order in which they were made."""
        self.calls = deque(sorted(self.calls, key=_order))
        self.unsorted = False

    def add_late(self, call: Call[Any]) -> None:
        """Adds a call that was made earlier than others in line."""
        self.calls.append(call)
        self.unsorted = True

    def put_back(self, call: Call[Any]) -> None:
        """A call that had left stands in its old place again."""
        self.calls.appendleft(call)
        self.unsorted = True

    def keep(self, calls: Iterable[Call[Any]]) -> None:
        """Keeps these calls only, as far as they wait."""
        self.calls = deque(call for call in calls if call.phase == WAITING)

    def drop_over(self) -> None:
        """Drops the calls that no longer wait."""
        self.keep(self.calls)

    def take_all(self) -> list[Call[Any]]:
        """Returns the calls; the line is empty then."""
        calls = list(self.calls)
        self.calls.clear()
        return calls


def _order(call: Call[Any]) -> int:
    return call.order
