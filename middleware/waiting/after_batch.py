"""What follows from the outcome of a call, beyond the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from telesto.middleware.common.budget import Budget
from telesto.middleware.common.failures import Failure
from telesto.middleware.scheduling.expected_size import Weights
from telesto.middleware.scheduling.ordering import mark_refused, note_failed, note_full, refused_for_now
from telesto.middleware.scheduling.outcomes import Arrivals, Mark, Results, error_frame
from telesto.middleware.scheduling.requests import Read, Request, Wait, topic_channel
from telesto.middleware.waiting.room import WaitingRoom
from telesto.protocol.packets import LeaseRef


class Effects:
    """Wakes reads, parks reads, ends fenced connections, and keeps account of numbers.

    Attributes:
        on_settled: takes the messages that consumers do not have any more.
        on_lost: the same, of those that consumers do not know of.
        on_failed: takes the messages that consumers have given back as failed.
        on_touched: takes the messages that consumers have touched, and those that were gone when they did.
    """

    def __init__(
        self,
        room: WaitingRoom,
        budget: Budget,
        weights: Weights,
        tell_others: Callable[[Arrivals], None],
        empty_frame: Callable[[Read], bytes],
    ) -> None:
        self._room = room
        self._budget = budget
        self._weights = weights
        self._tell_others = tell_others
        self._empty_frame = empty_frame
        self.on_settled: Callable[[list[LeaseRef]], None] = lambda refs: None
        self.on_lost: Callable[[list[LeaseRef]], None] = lambda refs: None
        self.on_failed: Callable[[list[LeaseRef]], None] = lambda refs: None
        self.on_touched: Callable[[list[LeaseRef], list[LeaseRef]], None] = lambda kept, gone: None
        room.on_answer = self.answer_read

    @property
    def clock(self) -> int:
        """The waiting room's clock."""
        return self._room.clock

    def before(self, requests: list[Request]) -> list[Request]:
        """Answers the requests that must not be executed (any more); returns the others."""
        if requests and isinstance(requests[0], Read):
            reads = cast(list[Read], requests)
            requests = [read for read in reads if read.wait is None or not self._is_over(read, read.wait)]
        if not any(request.line.refused or request.line.refusing for request in requests):
            return requests
        return [request for request in requests if not self._is_refused(request)]

    def _is_refused(self, request: Request) -> bool:
        """Refuses a request that must not overtake one that was refused for now."""
        failure = refused_for_now(request)
        if failure is None:
            mark_refused(request)
            return False
        self.unrecorded(request)
        self._budget.leave(1, request.size)
        if isinstance(request, Read):
            self.leave(request)
        request.line.send(error_frame(request.packet_id, failure))
        return True

    def _is_over(self, read: Read, wait: Wait) -> bool:
        """Ends a read that was cancelled, or has lost its connection, after it was woken.

        In its first turn it may carry confirmations, which only a call applies.
        """
        if not wait.over or (read.confirms and not wait.readmitted):
            return False
        self._room.leave(read)
        self._budget.leave(1, read.size)
        self._answer(read, self._empty_frame(read))
        return True

    def after(self, requests: list[Request], results: Results) -> None:
        """Does what follows from a batch as a whole."""
        if results.arrivals:
            self.arrived(results.arrivals)
        for request, queue_id in results.full:
            note_full(request, queue_id)
        for request in results.unrecorded:
            self.unrecorded(request)
        for request, failure in results.failed:
            note_failed(request, failure)
        if results.settled:
            self.on_settled(results.settled)
        for queue_id, weight in results.heavy.items():
            self._weights.note(queue_id, weight)
        if requests and isinstance(requests[0], Read):
            self._settle_reads(requests, results)

    def end_fenced(self, results: Results) -> None:
        """Closes the connections whose sessions are over, once their answers are on the way."""
        for line in {request.line for request in results.fenced}:
            line.finish()

    def arrived(self, arrivals: Arrivals) -> None:
        """Messages came to queues, or came back."""
        self._room.arrived(arrivals)
        self._tell_others(arrivals)

    def ready_elsewhere(self, queue_id: int) -> None:
        """Other middlewares have something to claim from a queue."""
        self._tell_others({(queue_id, 0): 1})

    def queue_deleted(self, queue_id: int) -> None:
        """A queue is gone: those who wait for it, here and elsewhere, are to know."""
        self._room.queue_deleted(queue_id)
        self._tell_others({(queue_id, 0): 0})

    def subscription_changed(self, client_id: int, topic_id: int) -> None:
        """A client's subscription of a topic began or ended: its own gets that wait are to know."""
        self._room.subscription_changed(client_id, topic_channel(topic_id))

    def found_nothing(self, request: Request, scanned_at: int) -> None:
        """A read found nothing: it waits on, or is answered empty."""
        assert isinstance(request, Read)
        if request.wait is not None:
            self._room.scanned(request, [])
            if self._room.settle_empty(request, scanned_at):
                request.applied()
                return
        self._answer(request, self._empty_frame(request))

    def answer_read(self, read: Read, failure: Failure | None) -> None:
        """Answers a read whose waiting is over."""
        self._answer(
            read, self._empty_frame(read) if failure is None else error_frame(read.packet_id, failure)
        )

    def leave(self, read: Read) -> None:
        """A read ends without having scanned."""
        if read.wait is not None:
            self._room.leave(read)
            read.line.waiting.pop(read.packet_id, None)

    def unrecorded(self, request: Request) -> None:
        """Nothing of a request is recorded, so nothing of it is unconfirmed."""
        request.line.forget_number(getattr(request.packet, "number", 0))

    def failed(self, request: Request, failure: Failure) -> None:
        """A request failed as a whole, outside a batch."""
        if not failure.recorded:
            self.unrecorded(request)
        note_failed(request, failure)

    def _answer(self, read: Read, frame: bytes) -> None:
        if read.wait is not None:
            read.line.waiting.pop(read.packet_id, None)
        self.unrecorded(read)
        read.line.send(frame)

    def _settle_reads(self, requests: list[Request], results: Results) -> None:
        taken = dict(results.handed)
        for request, receivers in results.handed:
            if len(receivers) > 1 and request.packet.number in request.line.unconfirmed:
                request.line.unconfirmed[request.packet.number] = len(receivers)
        for request, outcome in zip(requests, results.outcomes, strict=True):
            assert isinstance(request, Read)
            wait = request.wait
            if wait is None or isinstance(outcome, Mark):
                continue
            request.line.waiting.pop(request.packet_id, None)
            if request in taken:
                self._room.scanned(request, taken[request])
            else:
                self._room.leave(request)
