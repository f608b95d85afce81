"""Requests, the clients that send them, and the pipelines in which the requests of a connection wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import islice
from typing import Any, Protocol, TypedDict

from telesto.db.calls import Statement
from telesto.middleware.common.failures import Failure
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import ClientMode, Error, LeaseRef, PutMessage, PutMessages, PutToTopic

_ELEMENT_WEIGHT_BYTES = 1024
#: Characters of what a failure says, which may name a topic of 1,024 of them.
_DETAILS_MAX = 1_000


class Kind(IntEnum):
    """Requests of one kind are gathered into one call."""

    PUT = 0
    TAKE = 1
    TAKE_SELECTED = 2
    CONFIRM = 3
    SINGLE = 4
    PUBLISH = 5
    FETCH = 6
    ACK = 7
    BROWSE = 8


#: These are not gathered: a call executes one of them. Pages of messages have calls of their own, so that
#: nothing else waits for the time that large answers take.
SINGLY = (Kind.SINGLE, Kind.BROWSE)


@dataclass(frozen=True, slots=True)
class Client:
    """Who a connection is: the client and the session that this connection opened."""

    client_id: int
    session: int
    mode: ClientMode


#: A connection before it has identified itself.
NOBODY = Client(0, 0, ClientMode.READ_ONLY)


_NONE: Set[int] = frozenset()


class Request:
    """One request, decoded and checked.

    Attributes:
        pipeline: the pipeline of its connection.
        packet: its packet.
        packet_id: what its answer repeats.
        kind: with which others it is gathered.
        size: its payload in bytes.
        weight: what it counts in a call, in bytes.
        series: how often the connection had left out a number: in a later series the client has seen all
            refusals of the ones before.
        refused: queues that must not take what it puts, for they refused an earlier put of the connection
            and the client did not know that when it sent this one.
    """

    __slots__ = ("kind", "packet", "packet_id", "pipeline", "refused", "series", "size", "weight")

    def __init__(self, pipeline: Pipeline, packet: Any, packet_id: int, kind: Kind, size: int) -> None:
        self.pipeline = pipeline
        self.packet = packet
        self.packet_id = packet_id
        self.kind = kind
        self.size = size
        self.weight = size
        self.series = 0
        self.refused: Set[int] = _NONE


class Read(Request):
    """A read; its weight is what it is expected to return.

    Attributes:
        wait: how it waits, None when it does not.
    """

    __slots__ = ("wait",)

    def __init__(
        self, pipeline: Pipeline, packet: Any, packet_id: int, kind: Kind, size: int, wait: Wait | None
    ) -> None:
        super().__init__(pipeline, packet, packet_id, kind, size)
        self.wait = wait

    @property
    def confirms(self) -> bool:
        """It carries confirmations, which only a call applies."""
        return bool(self.packet.confirmed)

    def applied(self) -> None:
        """What it confirms was applied; the next calls need not look for it."""
        self.packet.confirmed = []


class Get(Read):
    """A get of messages of topics, or only the positions that one would carry."""

    __slots__ = ()

    @property
    def confirms(self) -> bool:
        """It carries positions."""
        return bool(self.packet.positions)

    def applied(self) -> None:
        """Positions are kept as far as they say more than what is confirmed."""
        self.packet.positions = [position for position in self.packet.positions if position.after]


def messages_of(packet: Any) -> int:
    """How many messages a request puts; 1 for any other request."""
    kind = type(packet)
    return len(packet.messages) if kind is PutMessages or kind is PutToTopic else 1


def weight_of_put(packet: Any, size: int) -> int:
    """What a put of so many bytes counts in a call: of small messages, not their bytes take the time."""
    if type(packet) is PutMessage:
        return size
    return size + _ELEMENT_WEIGHT_BYTES * len(packet.messages)


def topic_channel(topic_id: int) -> int:
    """What reads wait at and middlewares tell each other of: a queue's own id, or this for a topic."""
    return -topic_id


class WakeUp:
    """One message that somebody is woken for.

    Attributes:
        receiver_id: the message's receiver, 0 for anyone.
        origin: the ticket of the read that was woken first.
        wrapped: it has been passed on beyond the end of the pipeline.
    """

    __slots__ = ("origin", "receiver_id", "wrapped")

    def __init__(self, receiver_id: int, origin: int) -> None:
        self.receiver_id = receiver_id
        self.origin = origin
        self.wrapped = False


class Wait:
    """How a read waits.

    Attributes:
        channels: what it waits for: a queue, or topics by their ``topic_channel``.
        deadline: when its time is up, by the loop's clock in seconds; None for never.
        by_context: it takes nothing but a response to its client.
        everything: it is for all topics of its client.
        selective: that it found nothing says nothing about what others would find.
        ticket: its place among the parked reads, 0 before it was parked first.
        entry: its entry among the deadlines while it is parked.
        parked: it stands in the waiting room.
        over: it must not park (again): it was cancelled, or its connection is gone.
        readmitted: it has been parked and goes its way without its connection's pipeline.
        wake_up: what it was woken by, None when it was not.
        busy_count: how often it was answered that something is busy.
        busy_since: since when, 0.0 while it is not.
    """

    __slots__ = (
        "busy_count",
        "busy_since",
        "by_context",
        "channels",
        "deadline",
        "entry",
        "everything",
        "over",
        "parked",
        "readmitted",
        "selective",
        "ticket",
        "wake_up",
    )

    def __init__(
        self, channels: tuple[int, ...], deadline: float | None, *, by_context: bool, selective: bool
    ) -> None:
        self.channels = channels
        self.everything = False
        self.deadline = deadline
        self.by_context = by_context
        self.selective = selective
        self.ticket = 0
        self.entry = 0
        self.parked = False
        self.over = False
        self.readmitted = False
        self.wake_up: WakeUp | None = None
        self.busy_count = 0
        self.busy_since = 0.0


class Pipeline:
    """The requests of one connection that wait, in order, and how they are answered.

    A pipeline stands in at most one fair queue and has at most one run of requests in flight.

    Attributes:
        address: where the peer is.
        send: gives a frame to the connection.
        answered_at: when answers were written last, by the system's monotonic clock in seconds; 0.0 when
            requests are not traced.
        finish: closes the connection once it has sent what it was given.
        on_identity: takes who the connection is once a takeover is over; None when it failed.
        requests: what waits, first come first served.
        size: the bytes of what waits.
        client: who the connection is.
        frame_bytes: the longest frame that the client accepts.
        in_flight: a run of its requests is being executed.
        standing: it stands in a fair queue.
        resting: it pauses before it tries a busy request again.
        held: nothing is taken from it until the peer reads its answers.
        closed: the connection is gone; nothing is executed for it any more.
        apart: its next run goes into a call for one queue only.
        busy_count: how often in a row its run was answered that something is busy.
        busy_since: since when, by the loop's clock in seconds.
        refused: by queue, the number of the put that the queue refused as full, until the client knows.
        refusing: how a numbered request was refused for now; so are all after it, until the client knows.
        series: the series of requests that ``refused`` and ``refusing`` belong to.
        unconfirmed: by number, how many answers or messages are unconfirmed.
        waiting: by packet id, the reads that may wait and are not answered.
        parked: how many of them stand in the waiting room.
        consumers: the ids of its consumers.
        silent: nothing has been heard for so long that its consumers get nothing until it is heard again.
        heard_at: when something came over the connection last, by the loop's clock in seconds.
        drained: called when requests were taken from the pipeline while nothing is read from its connection.
    """

    __slots__ = (
        "address",
        "answered_at",
        "apart",
        "busy_count",
        "busy_since",
        "client",
        "closed",
        "consumers",
        "drained",
        "finish",
        "frame_bytes",
        "heard_at",
        "held",
        "in_flight",
        "on_identity",
        "parked",
        "refused",
        "refusing",
        "requests",
        "resting",
        "send",
        "series",
        "silent",
        "size",
        "standing",
        "unconfirmed",
        "waiting",
    )

    def __init__(
        self,
        send: Callable[[bytes], None],
        finish: Callable[[], None],
        on_identity: Callable[[Client | None], None],
    ) -> None:
        self.send = send
        self.finish = finish
        self.on_identity = on_identity
        self.address = "local"
        self.requests: deque[Request] = deque()
        self.size = 0
        self.client = NOBODY
        self.frame_bytes = 0
        self.heard_at = 0.0
        self.silent = False
        self.answered_at = 0.0
        self.in_flight = False
        self.standing = False
        self.resting = False
        self.held = False
        self.closed = False
        self.apart = False
        self.busy_count = 0
        self.busy_since = 0.0
        self.refused: dict[int, int] = {}
        self.refusing: Failure | None = None
        self.series = 0
        self.unconfirmed: dict[int, int] = {}
        self.waiting: dict[int, Read] = {}
        self.parked = 0
        self.consumers: dict[int, None] = {}
        self.drained: Callable[[], None] | None = None

    def take_run(self, into: list[Request], kind: Kind, count: int, weight: int) -> int:
        """Moves requests of a kind from the head, up to a count and a weight, but one at least.

        Returns their weight.
        """
        requests = self.requests
        taken = 0
        left = count
        while left and requests:
            request = requests[0]
            if request.kind is not kind or (taken and taken + request.weight > weight):
                break
            into.append(requests.popleft())
            taken += request.weight
            self.size -= request.size
            left -= 1
        return taken

    def messages_waiting(self, count: int) -> int:
        """How many messages the requests are for that wait; counted up to ``count`` requests."""
        return sum(messages_of(request.packet) for request in islice(self.requests, count))

    def give_back(self, requests: list[Request]) -> None:
        """Puts requests back to the head, in their order."""
        self.requests.extendleft(reversed(requests))
        self.size += sum(request.size for request in requests)

    def clear(self) -> list[Request]:
        """Empties the pipeline; returns its requests."""
        requests = list(self.requests)
        self.requests.clear()
        self.size = 0
        return requests

    def forget_number(self, number: int) -> None:
        """Notes that nothing is recorded for a numbered request."""
        self.unconfirmed.pop(number, None)

    def detach(self) -> None:
        """Lets go of the connection, which is gone; requests that are under way still hold this pipeline."""
        self.send = _send_nowhere
        self.finish = _finish_nothing
        self.on_identity = _ignore_identity
        self.drained = None


def _send_nowhere(_frame: bytes) -> None:
    """Takes an answer whose connection is gone."""


def _finish_nothing() -> None:
    """Closes a connection that is gone."""


def _ignore_identity(_client: Client | None) -> None:
    """Takes the identity of a connection that is gone."""


class Confirmed(TypedDict):
    """What requests confirm, as arguments of the procedures of batches."""

    confirm_clients: list[int]
    confirm_sessions: list[int]
    confirm_numbers: list[int]


def confirmed_of(requests: Sequence[Request]) -> Confirmed:
    """Returns client, session and number of all that the requests confirm."""
    clients: list[int] = []
    sessions: list[int] = []
    numbers: list[int] = []
    for request in requests:
        confirmed = request.packet.confirmed
        if confirmed:
            client = request.pipeline.client
            clients += [client.client_id] * len(confirmed)
            sessions += [client.session] * len(confirmed)
            numbers += confirmed
    return {"confirm_clients": clients, "confirm_sessions": sessions, "confirm_numbers": numbers}


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
