"""What a client sends, in which order and under which numbers, as far as the limits allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from telesto.client.bookkeeping.confirmations import ConfirmContents
from telesto.client.bookkeeping.ledger import Books
from telesto.client.calls.queue_calls import WAITING, Call, DeleteClientCall, TakingCall
from telesto.client.calls.topic_calls import GetCall
from telesto.client.connection.link import Link
from telesto.client.models import Message
from telesto.client.session.identity import Phase
from telesto.client.session.line import Line
from telesto.client.session.put_coalescing import JointPuts

#: So many bytes are encoded before the shell gets to write them.
_OUTPUT_MAX = 256 * 1024


class SenderHost(Protocol):
    """What the sender needs of the session that it belongs to."""

    link: Link | None
    writable: bool
    phase: Phase
    limit: int

    def has_room(self) -> bool:
        """Tells whether the client itself allows one more request under way."""

    def send(self, link: Link, call: Call[Any], number: int, confirmed: list[int], now: float) -> bool:
        """Sends a request; False when it cannot be sent at all, then the call is over."""

    def answer_from_recovered(self, call: TakingCall[Any], messages: list[Message]) -> None:
        """Ends the read with these messages instead of the service's."""

    def deleted(self, call: DeleteClientCall) -> None:
        """The client is no more; the middleware closes the connection."""


class Sender:
    """Sends what stands in line.

    A numbered request carries the session's next number. The middleware refuses everything behind a refusal
    for now, so that nothing overtakes it, until a number is left out: the sender regroups, that is, it lets
    what is under way end, leaves out a number and begins again with the line in order.

    Attributes:
        deleting: a deletion of the client is under way, and nothing may follow it.
        hold_until: until then nothing of the line is sent, by the session's clock; 0 for no such time.
        orphaned_reads: reads that nobody waits for may be under way.
    """

    def __init__(
        self,
        host: SenderHost,
        line: Line,
        books: Books,
        joint_puts: JointPuts,
        clock: Callable[[], float],
        fast: bool,
    ) -> None:
        self._host = host
        self._line = line
        self._books = books
        self._joint_puts = joint_puts
        self._clock = clock
        self._fast = fast
        self._next_number = 1
        self._resumed_at = 1
        self._regrouping = False
        self.deleting = False
        self.hold_until = 0.0
        self.orphaned_reads = False

    def begin(self, next_number: int) -> None:
        """A session goes on with this number."""
        self._next_number = self._resumed_at = next_number
        self._regrouping = False
        self.hold_until = 0.0

    def take_back(self, numbers: list[int]) -> None:
        """What was to leave under these numbers, the last ones, did not."""
        self._next_number = min(numbers)

    def refused(self, call: Call[Any]) -> None:
        """A numbered request was refused for now, and so is what follows it."""
        self._books.confirmations.open -= 1
        self._regrouping = self._regrouping or call.number >= self._resumed_at

    def hold(self, until: float, retry_after: float | None = None) -> None:
        """Sends nothing of the line until then, or for ``retry_after`` seconds."""
        if retry_after is not None:
            until = self._clock() + retry_after
        self.hold_until = max(self.hold_until, until)

    def pump(self) -> None:
        """Sends what is in line, as far as the limits allow."""
        host = self._host
        link = host.link
        calls = self._line.calls
        if link is None or not calls or not host.writable:
            return
        if host.phase is not Phase.READY and not (host.phase is Phase.DRAINING and calls[0].settling):
            return
        now = self._clock()
        if self.deleting or now < self.hold_until or (self._regrouping and not self._regroup(link)):
            return
        if self._line.unsorted:
            self._line.sort()
            calls = self._line.calls
        pending = link.pending
        confirmations = self._books.confirmations
        recovered = len(self._books.custody.recovered) > 0
        limit = host.limit
        if confirmations.overdue:
            self._books.custody.send_ahead()
        while calls and link.output_size < _OUTPUT_MAX and len(pending) < limit and not self.deleting:
            call = calls[0]
            if host.phase is Phase.DRAINING and not call.settling:
                return
            if call.phase != WAITING or (recovered and self._answer_recovered(call)):
                calls.popleft()
            elif self.orphaned_reads and self._awaits_orphan(link, call):
                return
            elif not call.numbered or (self._fast and call.may_be_fast):
                calls.popleft()
                call = self._joint_puts.with_neighbours(call, calls)
                if host.send(link, call, 0, [], now) and isinstance(call, GetCall):
                    self._books.topics.sent(call)
            elif confirmations.room(limit) and host.has_room():
                calls.popleft()
                if not confirmations.refused:  # where it matters which of them were called before
                    call = self._joint_puts.with_neighbours(call, calls)
                self._send_numbered(link, call, now)
            else:
                return
        if confirmations.refused and not calls:
            confirmations.line_is_empty(now)

    def _regroup(self, link: Link) -> bool:
        """Begins again once nothing sent before a refusal is open; tells whether that is so."""
        if any(call.number and not (call.taking and call.wait > 0) for call in link.pending.values()):
            return False
        self._regrouping = False
        self._next_number += 1
        self._resumed_at = self._next_number
        return True

    def _awaits_orphan(self, link: Link, call: Call[Any]) -> bool:
        """Tells whether a read has to wait for the answer to one that nobody waits for any more.

        What that one took comes before anything that this one might take.
        """
        orphans = [other for other in link.pending.values() if other.orphaned and other.taking]
        self.orphaned_reads = bool(orphans)
        return call.taking and any(orphan.queue_id == call.queue_id for orphan in orphans)

    def _answer_recovered(self, call: Call[Any]) -> bool:
        """Ends a read with messages that this client has already, if some match."""
        if not isinstance(call, TakingCall):
            return False
        messages = self._books.custody.recovered.take(call)
        if messages:
            self._host.answer_from_recovered(call, messages)
        return bool(messages)

    def _send_numbered(self, link: Link, call: Call[Any], now: float) -> None:
        confirmations = self._books.confirmations
        if isinstance(call, DeleteClientCall):
            self._before_deleting(call)
        number = self._next_number
        confirmed = confirmations.carry(call.order)
        if self._host.send(link, call, number, confirmed, now):
            self._next_number = number + 1
            confirmations.open += 1
        elif confirmed:
            confirmations.bring_back(ConfirmContents(confirmed, [], []), now)

    def _before_deleting(self, call: DeleteClientCall) -> None:
        """Nothing may follow the deletion, and what it cannot carry itself goes before it."""
        call.on_answer = self._host.deleted
        self.deleting = True
        self._books.custody.send_ahead()
