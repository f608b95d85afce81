"""Errors that answer requests: what becomes of the request, and whether the client stays where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from telesto.client.bookkeeping.ledger import Books
from telesto.client.calls.queue_calls import WAITING, Call, DeleteClientCall
from telesto.client.calls.topic_calls import GetCall
from telesto.client.connection.link import Errand, Link
from telesto.client.session.gets import Gets
from telesto.client.session.identity import Phase
from telesto.client.session.put_coalescing import JointPut, JointPuts
from telesto.client.session.sending import Sender
from telesto.protocol.errors import (
    ConnectionsExhaustedError,
    DatabaseUnavailableError,
    DiskFullError,
    ErrorClass,
    InternalError,
    SessionFencedError,
    ShuttingDownError,
    StandbyUnavailableError,
    TelestoError,
)

#: The middleware has no connection to the database, or none left for this request.
_WITHOUT_DATABASE = (DatabaseUnavailableError, ConnectionsExhaustedError)


class RefusalsHost(Protocol):
    """What the refusals need of the session that they belong to."""

    phase: Phase

    def finish(self, call: Call[Any]) -> None:
        """The call is over."""

    def again(self, call: Call[Any]) -> None:
        """Tries once more a request that was not done, in its old place."""

    def confirm_answer(self, call: Call[Any]) -> None:
        """The answer has been taken, or nobody wants it."""

    def orphan_ended(self, call: Call[Any]) -> None:
        """The call was over before this answer, which is none of messages."""

    def rejecting(self, call: Call[Any]) -> None:
        """A request is about to be rejected: nothing was done, and it will not be tried again."""

    def orphan_not_done(self, call: Call[Any]) -> None:
        """The call was over before this answer, which says that nothing was done."""

    def drop_link(self, error: TelestoError) -> None:
        """Gives the connection up."""

    def go_away(self, addresses: list[str]) -> None:
        """The middleware is about to stop: what is under way is finished, the rest goes elsewhere."""

    def fenced(self, error: TelestoError) -> None:
        """Another process has become this client; it was told what became of the calls in doubt."""


class Refusals:
    """Does what an error's class asks for.

    REJECTED ends the call; RETRYABLE tries again, and everything in line waits for it, to keep the order;
    IN_DOUBT and FATAL cost the connection, and the next takeover tells what was done.
    """

    def __init__(
        self,
        host: RefusalsHost,
        books: Books,
        sender: Sender,
        joint_puts: JointPuts,
        gets: Gets,
        retry_time: Callable[[int], float],
    ) -> None:
        self._host = host
        self._books = books
        self._sender = sender
        self._joint_puts = joint_puts
        self._gets = gets
        self._retry_time = retry_time

    def refused(self, link: Link, call: Call[Any], error: TelestoError) -> None:
        """An error is the answer to a request."""
        error_class = error.error_class
        if isinstance(error, SessionFencedError):
            link.pending[call.packet_id] = call
            self._host.fenced(error)
        elif isinstance(call, Errand):
            self._errand_refused(link, call, error)
        elif error_class is ErrorClass.FATAL or (error_class is ErrorClass.IN_DOUBT and call.numbered):
            link.pending[call.packet_id] = call
            self._host.drop_link(error)
        elif isinstance(error, InternalError) or error_class is ErrorClass.REJECTED:
            self._books.bring_back_carried(call)
            self._rejected(call, error)
        else:
            self._books.bring_back_carried(call)
            self._refused_for_now(call, error)

    def _errand_refused(self, link: Link, errand: Errand, error: TelestoError) -> None:
        if error.error_class is ErrorClass.FATAL and self._host.phase is not Phase.GREETING:
            link.pending[errand.packet_id] = errand
            self._host.drop_link(error)
        else:
            errand.on_refused(error)

    def _rejected(self, call: Call[Any], error: TelestoError) -> None:
        self._host.rejecting(call)
        if isinstance(call, JointPut) and error.error_class is ErrorClass.REJECTED:
            self._host.confirm_answer(call)
            self._joint_puts.separate(call)
            return
        if isinstance(call, DeleteClientCall):
            self._sender.deleting = False
        if not call.orphaned and isinstance(call, GetCall) and self._gets.rejected(call, error):
            return
        call.error = error
        if call.orphaned:
            self._host.orphan_ended(call)
        else:
            self._host.finish(call)

    def _refused_for_now(self, call: Call[Any], error: TelestoError) -> None:
        """Nothing was done, and a later try may succeed; to keep the order, all in line waits for it."""
        if isinstance(call, DeleteClientCall):
            self._sender.deleting = False
        if call.number:
            self._sender.refused(call)
        if call.orphaned:
            self._host.orphan_not_done(call)
        else:
            call.failure = error
            self._try_later(call, error)

    def _try_later(self, call: Call[Any], error: TelestoError) -> None:
        if isinstance(error, (ShuttingDownError, *_WITHOUT_DATABASE)):
            call.tries -= 1
            self._host.again(call)
            self._go_elsewhere(error)
            return
        if isinstance(error, (StandbyUnavailableError, DiskFullError)):
            call.tries -= 1  # no middleware can do better, so that only the call's time limits the tries
        self._host.again(call)
        if call.phase == WAITING:
            self._sender.hold(self._retry_time(call.tries), error.retry_after)

    def _go_elsewhere(self, error: TelestoError) -> None:
        """The middleware cannot do anything for now; another one may, or this one later."""
        if isinstance(error, _WITHOUT_DATABASE):
            self._host.drop_link(error)
        else:
            self._host.go_away([])
