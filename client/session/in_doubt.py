"""Requests in doubt: they were under way when their connection was lost, so that they may have been done.

The next takeover tells: what it lists was done and is answered by it; the rest was not done and is sent
again.
"""

from __future__ import annotations

from typing import Any, Protocol

from telesto.client.bookkeeping.handshake import Established
from telesto.client.bookkeeping.ledger import Books
from telesto.client.bookkeeping.takeover import Takeover
from telesto.client.calls import failures
from telesto.client.calls.queue_calls import Call, DeleteClientCall
from telesto.client.calls.state import OperationId
from telesto.protocol.errors import TelestoError


class DoubtHost(Protocol):
    """What the requests in doubt need of the session that they belong to."""

    def finish(self, call: Call[Any]) -> None:
        """The call is over."""

    def fail(self, call: Call[Any], error: TelestoError) -> None:
        """The call is over, with an error that is not an answer."""

    def resolve(self, call: Call[Any], result: Established) -> None:
        """A takeover tells whether a request in doubt was done."""


class Doubt:
    """Keeps the requests of one client that are in doubt, orphaned ones too.

    Attributes:
        calls: the requests, in the order of sending.
    """

    def __init__(self, host: DoubtHost, books: Books) -> None:
        self._host = host
        self._books = books
        self.calls: list[Call[Any]] = []

    def take_all(self) -> list[Call[Any]]:
        """Returns the requests; none is in doubt any more."""
        calls, self.calls = self.calls, []
        return calls

    def new_takeover(self) -> Takeover:
        """Makes the place for what a takeover lists."""
        wanted = {OperationId(call.session, call.number) for call in self.calls}
        return Takeover(wanted, self._books.custody.recovered.room)

    def settle(self, result: Established, now: float) -> None:
        """A takeover ends all doubt. What it lists and nobody asks for any more is dealt with, too."""
        calls = self.take_all()
        unseen = {OperationId(call.session, call.number) for call in calls if call.orphaned}
        for call in calls:
            self._host.resolve(call, result)
        self._books.custody.settle(result.takeover, unseen, now)

    def forget_incarnation(self, before: str, now: str) -> None:
        """Sessions and numbers of another database mean nothing in this one: nobody will ever tell."""
        for call in self.take_all():
            if not call.numbered:
                self.calls.append(call)
            elif not call.orphaned:
                self._host.fail(call, failures.incarnation_changed(call, before, now))

    def end_deletions(self) -> None:
        """The client does not exist: its deletion was done."""
        for call in [call for call in self.calls if isinstance(call, DeleteClientCall)]:
            self.calls.remove(call)
            if not call.orphaned:
                call.number = 0
                self._host.finish(call)
