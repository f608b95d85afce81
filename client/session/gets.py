"""The gets of a client: whose turn it is, what was fetched before, and what an answer proves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from telesto.client.bookkeeping.ledger import Books
from telesto.client.calls.queue_calls import DONE, EARLY_MAX, SENT, Call
from telesto.client.calls.topic_calls import GetCall
from telesto.client.session.line import Line
from telesto.protocol.errors import NotSubscribedError, PositionUnknownError, TelestoError


class GetsHost(Protocol):
    """What the gets need of the session that they belong to.

    Attributes:
        check_at: when deadlines have to be looked at next, by the session's clock.
    """

    check_at: float

    def finish(self, call: Call[Any]) -> None:
        """The call is over."""

    def again(self, call: Call[Any]) -> None:
        """Tries once more a request that was not done, in its old place."""

    def wait_again(self, call: Call[Any]) -> None:
        """The waiting was ended before its time; it goes on."""

    def orphan(self, call: Call[Any]) -> None:
        """The call ends before its request, which is under way; what comes of it is looked after."""


class Gets:
    """Leads the gets of one client from the call to the end."""

    def __init__(self, host: GetsHost, line: Line, books: Books, clock: Callable[[], float]) -> None:
        self._host = host
        self._line = line
        self._books = books
        self._clock = clock

    def submit(self, call: GetCall) -> None:
        """Puts a get in line when it is its turn."""
        call.wait_until = self._clock() + call.wait
        call.on_answer = self._answered
        if self._books.topics.enter(call):
            self._begin(call)
        else:
            self._host.check_at = min(self._host.check_at, self._books.topics.next_expiry)

    def end(self, call: GetCall) -> None:
        """A get is over; those begin whose turn it is now."""
        topics = self._books.topics
        for entered in topics.leave(call):
            self._begin(entered)
        self._host.check_at = min(self._host.check_at, topics.next_expiry)

    def abandon(self, call: GetCall) -> None:
        """Nobody waits for a get any more; what it got, or may get, comes again to the next one."""
        if call.phase == SENT:
            self._host.orphan(call)
        elif call.phase == DONE:
            self._books.topics.positions.put_back(call.messages)
        self.end(call)

    def rejected(self, call: GetCall, error: TelestoError) -> bool:
        """Corrects what this client thought to know; True when the get is tried again at once."""
        positions = self._books.topics.positions
        self._books.topics.failed()
        if isinstance(error, PositionUnknownError):
            positions.forget([position.subscription_id for position in call.told])
        elif isinstance(error, NotSubscribedError) and call.by_id and call.topic is not None:
            positions.forget_topic(call.topic)
            self._host.again(call)
            return True
        return False

    def _begin(self, call: GetCall) -> None:
        """It is a get's turn: what was fetched before comes first."""
        call.messages = self._books.topics.positions.take_fetched(call.topic, call.max_messages)
        if call.messages:
            self._host.finish(call)
        else:
            self._line.add_late(call)

    def _answered(self, call: GetCall) -> None:
        self._books.topics.positions.prove(call.told)
        messages = call.got()
        if not messages and self._clock() < call.wait_until - EARLY_MAX:
            self._host.wait_again(call)
            return
        call.messages = messages[: call.max_messages]
        self._books.topics.positions.keep(messages[call.max_messages :])
        self._host.finish(call)
