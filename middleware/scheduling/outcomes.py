"""What a call gave, per request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Protocol

from telesto.db.calls import Statement
from telesto.middleware.common.failures import Failure
from telesto.middleware.scheduling.requests import Request
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import Error, LeaseRef

#: Characters of what a failure says, which may name a topic of 1,024 of them.
_DETAILS_MAX = 1_000


class Mark(Enum):
    """What became of a request that has no answer yet."""

    #: Something that it needs is locked; it was not executed and is tried again soon.
    BUSY = 1
    #: A read found nothing.
    NOTHING = 2
    #: A read met a message beyond its share of the call's bytes; it is tried again with more.
    SHORT = 3


#: A frame that answers the request, or why there is none yet.
Outcome = bytes | Mark

#: By queue and receiver, how many messages came.
Arrivals = dict[tuple[int, int], int]


class Results:
    """The outcomes of a batch and what follows from them.

    Attributes:
        outcomes: one for each request, in their order.
        arrivals: the messages that came, or came back, to queues.
        full: puts that a queue refused as full, with the queue.
        fenced: requests whose session is over.
        failed: requests that failed as a whole.
        unrecorded: numbered requests of which nothing is recorded, so that nothing of them is unconfirmed.
        handed: reads that took several messages, or may have waited, with the receivers of the messages.
        heavy: queues of large messages, with the size of one.
        settled: messages that consumers do not have any more.
    """

    __slots__ = (
        "arrivals",
        "failed",
        "fenced",
        "full",
        "handed",
        "heavy",
        "outcomes",
        "settled",
        "unrecorded",
    )

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.arrivals: Arrivals = {}
        self.full: list[tuple[Request, int]] = []
        self.failed: list[tuple[Request, Failure]] = []
        self.fenced: list[Request] = []
        self.unrecorded: list[Request] = []
        self.handed: list[tuple[Request, list[int]]] = []
        self.heavy: dict[int, int] = {}
        self.settled: list[LeaseRef] = []

    def note_arrival(self, channel: int, receiver_id: int, count: int = 1) -> None:
        """Notes messages that came to a queue or, by its channel, a topic."""
        key = (channel, receiver_id)
        self.arrivals[key] = self.arrivals.get(key, 0) + count

    def forget_arrival(self, channel: int, receiver_id: int) -> None:
        """One message that came has been taken already."""
        key = (channel, receiver_id)
        left = self.arrivals.pop(key, 0) - 1
        if left > 0:
            self.arrivals[key] = left

    def fail(self, request: Request, failure: Failure) -> None:
        """Adds a failure as the request's outcome."""
        self.outcomes.append(error_frame(request.packet_id, failure))
        self.note_failed(request, failure)

    def note_failed(self, request: Request, failure: Failure) -> None:
        """Notes what follows from a failure of a whole request."""
        self.failed.append((request, failure))
        if failure.code is ErrorCode.SESSION_FENCED:
            self.fenced.append(request)
        self.unrecorded.append(request)

    def extend(self, other: Results) -> None:
        """Appends the results of a later part of the batch."""
        self.outcomes += other.outcomes
        self.full += other.full
        self.failed += other.failed
        self.fenced += other.fenced
        self.unrecorded += other.unrecorded
        self.handed += other.handed
        self.settled += other.settled
        self.heavy.update(other.heavy)
        for key, count in other.arrivals.items():
            self.note_arrival(*key, count)


class Group(Protocol):
    """How the requests of one kind become one call: a pair of pure functions around a procedure.

    Attributes:
        stores: the requests bring messages, for which the database needs space.
        moves: the requests move messages, which needs space for a while.
    """

    stores: bool
    moves: bool

    def is_large(self, requests: Sequence[Request]) -> bool:
        """Says whether the answer may be too large to be sent while the transaction is open."""

    def statement(self, requests: Sequence[Request]) -> Statement:
        """Makes the call of the procedure."""

    def results(self, requests: Sequence[Request], rows: Sequence[Any]) -> Results:
        """Makes the outcomes from the procedure's rows."""


class SmallAnswers:
    """A kind whose answers are small, or whose transactions hold nothing but what is the client's own."""

    stores = False
    moves = False

    def is_large(self, _requests: Sequence[Request]) -> bool:
        """Says no."""
        return False


def error_frame(packet_id: int, failure: Failure) -> bytes:
    """Encodes a failure."""
    packet = Error(
        code=failure.code,
        error_class=failure.error_class,
        details=failure.details[:_DETAILS_MAX],
        related_id=failure.related_id,
        retry_after_ms=failure.retry_after_ms,
    )
    return packet.encode(packet_id)


def all_failed(requests: Iterable[Request], failure: Failure) -> Results:
    """Results in which every request failed in the same way."""
    results = Results()
    for request in requests:
        results.fail(request, failure)
    return results
