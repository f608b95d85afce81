"""What comes over a connection: which call each frame answers, and what the middleware says by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from telesto.client.bookkeeping.consumers import Consuming
from telesto.client.bookkeeping.ledger import Books
from telesto.client.calls import failures
from telesto.client.calls.queue_calls import Call
from telesto.client.connection.link import Link
from telesto.client.errors import ProtocolViolationError
from telesto.client.session.identity import Phase
from telesto.client.session.refusals import Refusals
from telesto.protocol import packets
from telesto.protocol.errors import SessionFencedError, TelestoError


class ReceiverHost(Protocol):
    """What the receiver needs of the session that it belongs to."""

    link: Link | None
    phase: Phase

    def finish(self, call: Call[Any]) -> None:
        """The call is over."""

    def drop_link(self, error: TelestoError) -> None:
        """Gives the connection up."""

    def go_away(self, addresses: list[str]) -> None:
        """The middleware is about to stop: what is under way is finished, the rest goes elsewhere."""

    def leave_when_drained(self, link: Link) -> None:
        """Gives up the connection to a middleware that is about to stop, once nothing is under way."""

    def fenced(self, error: TelestoError) -> None:
        """Another process has become this client; it was told what became of the calls in doubt."""


class Receiver:
    """Hands what comes to whom it concerns."""

    def __init__(
        self,
        host: ReceiverHost,
        books: Books,
        consuming: Consuming,
        refusals: Refusals,
        clock: Callable[[], float],
    ) -> None:
        self._host = host
        self._clock = clock
        self._books = books
        self._consuming = consuming
        self._refusals = refusals

    def feed(self, data: bytes) -> None:
        """Takes bytes that came over the connection."""
        host = self._host
        link = host.link
        if link is None:
            return
        link.heard_at = self._clock()
        link.unheard = 0
        try:
            frames = link.decoder.feed(data)
        except TelestoError as error:
            host.drop_link(error)
            return
        pending = link.pending
        for method_id, packet_id, payload in frames:
            call = pending.pop(packet_id, None)
            if call is None or method_id != call.response_id:
                self._unusual(link, call, method_id, packet_id, payload)
            else:
                try:
                    call.response = call.response_type.decode(payload)
                except TelestoError as error:
                    pending[packet_id] = call
                    host.drop_link(error)
                    return
                if call.carried:
                    self._books.confirmations.proven_numbers(call.carried)
                if call.on_answer is None:
                    host.finish(call)
                else:
                    call.on_answer(call)
            if host.link is not link:
                return
        if link.decoder.error is not None:
            host.drop_link(link.decoder.error)
        elif host.phase is Phase.DRAINING:
            host.leave_when_drained(link)

    def _unusual(
        self, link: Link, call: Call[Any] | None, method_id: int, packet_id: int, payload: bytes
    ) -> None:
        """Handles a frame that is not the response to a pending call."""
        try:
            if method_id == packets.Error.METHOD_ID:
                error = failures.answered_error(packets.Error.decode(payload), call, str(link.address))
                if call is None:
                    self._connection_refused(error)
                else:
                    self._refusals.refused(link, call, error)
                return
            if method_id == packets.GoAway.METHOD_ID and call is None:
                self._host.go_away(packets.GoAway.decode(payload).addresses)
                return
            if method_id == packets.Deliver.METHOD_ID and call is None:
                self._consuming.delivered(packets.Deliver.decode(payload))
                return
            if method_id == packets.LeaseLost.METHOD_ID and call is None:
                self._consuming.lost(packets.LeaseLost.decode(payload))
                return
            if method_id == packets.Alive.METHOD_ID and call is None:
                packets.Alive.decode(payload)
                return
        except TelestoError as error:
            violation = error
        else:
            violation = ProtocolViolationError(
                f"packet {method_id:#x} with packet id {packet_id} answers nothing"
            )
        if call is not None:
            link.pending[packet_id] = call
        self._host.drop_link(violation)

    def _connection_refused(self, error: TelestoError) -> None:
        if isinstance(error, SessionFencedError):
            self._host.fenced(error)
        else:
            self._host.drop_link(error)
