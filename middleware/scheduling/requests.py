"""Requests, the clients that send them, the pipelines in which they wait, and the outcomes of calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import islice
from typing import Any, Protocol, TypedDict

from telesto.db.calls import Statement
from telesto.middleware.common.failures import Failure
from telesto.middleware.security.login import Login
from telesto.middleware.security.users import User
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import ClientMode, Error, LeaseRef, PutMessage, PutMessages, PutToTopic

_ELEMENT_WEIGHT_BYTES = 1024
#: The most characters of a failure's details, which may contain the name of a topic of 1,024.
_DETAILS_MAX = 1_000
#: The most characters of what a client says of itself.
_LABEL_MAX = 255


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
    LOGIN = 9


#: These are not gathered: a call executes one of them. Pages of messages are a kind of their own, so that no
#: other request waits for their large answers. So is what a new connection needs before its first request:
#: nobody must be kept out by what others ask for.
SINGLY = (Kind.SINGLE, Kind.BROWSE, Kind.LOGIN)


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a connection, and the session that this connection opened.

    Attributes:
        client_id, session, mode: the client, its session, and what it may do.
        temporary: it is deleted when its connection is not seen any more.
    """

    client_id: int
    session: int
    mode: ClientMode
    temporary: bool = False


#: A connection before it has identified itself.
UNIDENTIFIED = Client(0, 0, ClientMode.READ_ONLY)


_NONE: Set[int] = frozenset()


class Request:
    """One request, decoded and checked.

    Attributes:
        pipeline: the pipeline of its connection.
        packet: its packet.
        packet_id: the id that its answer repeats.
        kind: requests of the same kind are gathered.
        size: its payload in bytes.
        weight: how many bytes it counts in a call.
        series: how often the connection had skipped a number. A client that begins a series has seen all
            refusals of the series before.
        refused: queues that must refuse its messages, because they refused an earlier put of the connection
            and the client did not know that when it sent this request.
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
    """A read. Its weight is the size of what it is expected to return.

    Attributes:
        wait: how it waits; None if it does not.
    """

    __slots__ = ("wait",)

    def __init__(
        self, pipeline: Pipeline, packet: Any, packet_id: int, kind: Kind, size: int, wait: Wait | None
    ) -> None:
        super().__init__(pipeline, packet, packet_id, kind, size)
        self.wait = wait

    @property
    def confirms(self) -> bool:
        """Whether it carries confirmations, which only a call applies."""
        return bool(self.packet.confirmed)

    def applied(self) -> None:
        """Removes its confirmations: they were applied."""
        self.packet.confirmed = []


class Get(Read):
    """A get of messages of topics, or a packet with positions only."""

    __slots__ = ()

    @property
    def confirms(self) -> bool:
        """Whether it carries positions."""
        return bool(self.packet.positions)

    def applied(self) -> None:
        """Removes positions that only confirm: they were applied."""
        self.packet.positions = [position for position in self.packet.positions if position.after]


def for_people(text: str) -> str:
    """Returns what a client says of itself, such that it can be stored and shown."""
    return "".join(character for character in text[:_LABEL_MAX] if character.isprintable())


def messages_of(packet: Any) -> int:
    """Returns how many messages a request puts; 1 for any other request."""
    kind = type(packet)
    return len(packet.messages) if kind is PutMessages or kind is PutToTopic else 1


def weight_of_put(packet: Any, size: int) -> int:
    """Returns how many bytes a put counts in a call: small messages take time beyond that of their bytes."""
    if type(packet) is PutMessage:
        return size
    return size + _ELEMENT_WEIGHT_BYTES * len(packet.messages)


def topic_channel(topic_id: int) -> int:
    """Returns the channel of a topic. The channel of a queue, for waiting and notifying, is its id."""
    return -topic_id


class WakeUp:
    """A message for which a read is woken.

    Attributes:
        receiver_id: the message's receiver, 0 for anyone.
        origin: the ticket of the read that was woken first.
        wrapped: it was passed on beyond the last parked read, to the first.
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
        deadline: when its wait ends, by the loop's clock in seconds; None for never.
        by_context: it takes only a response to its client.
        everything: it is for all topics of its client.
        selective: it may find nothing where other reads would find a message.
        ticket: its place among the parked reads; 0 before it was first parked.
        entry: its entry among the deadlines while it is parked.
        parked: it is in the waiting room.
        over: it must not park (again): it was cancelled, or its connection is gone.
        readmitted: it was parked, and is executed without its connection's pipeline.
        wake_up: the message for which it was woken; None without one.
        busy_count: how often it met a lock.
        busy_since: when it first met a lock; 0.0 if it did not.
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


@dataclass(slots=True)
class Progress:
    """What the calls of a request have done that takes several.

    Attributes:
        done: how many messages they have handled.
        arrivals: messages that they have brought back and that nobody was told of yet.
    """

    done: int = 0
    arrivals: dict[tuple[int, int], int] = field(default_factory=dict)


class Pipeline:
    """The requests of one connection that wait, in order, and how they are answered.

    A pipeline is in at most one fair queue and has at most one run of requests in flight.

    Attributes:
        peer: its address and port, for people.
        address: that of the peer, as quotas count it.
        library: the name and version of the peer's library, for people.
        send: passes a frame to the connection.
        answered_at: when answers were written last, by the system's monotonic clock in seconds; 0.0 when
            requests are not traced.
        finish: closes the connection once it has sent what it was given.
        on_identity: gets the client after a takeover; None if it failed.
        on_login: gets what became of a step of the login, with its packet id: the user, None if another step
            follows, or the failure, which it answers.
        requests: those that wait, first come first served.
        size: the bytes of the requests that wait.
        client: the client of the connection.
        login: the login that is under way or complete; None when nobody has to log in.
        user: the user that it has logged in as; None when nobody has to log in.
        subscribed: the topics of the client's subscriptions by their ids, as far as its rights are checked by
            them; None if they are not known.
        frame_bytes: the longest frame that the client accepts.
        in_flight: a run of its requests is being executed.
        standing: it is in a fair queue.
        resting: it pauses before it tries a busy request again.
        held: nothing is taken from it until the peer reads its answers.
        closed: the connection is gone; nothing is executed for it any more.
        apart: its next run goes into a call for one queue only.
        busy_count: how often in a row its run met a lock.
        busy_since: when that began, by the loop's clock in seconds.
        refused: by queue, the number of the put that the queue refused as full, until the client knows it.
        refusing: the failure of a numbered request that was refused for now. All requests after it get it,
            too, until the client knows it.
        series: the series of requests that ``refused`` and ``refusing`` belong to.
        unconfirmed: by number, how many answers or messages are unconfirmed.
        waiting: by packet id, the reads that may wait and are not answered.
        parked: how many of them are in the waiting room.
        consumers: the ids of its consumers.
        silent: nothing was received for so long that its consumers get nothing until something is.
        heard_at: when data was received last, by the loop's clock in seconds.
        progress: what its request under way has done, if that takes several calls.
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
        "library",
        "login",
        "on_identity",
        "on_login",
        "parked",
        "peer",
        "progress",
        "refused",
        "refusing",
        "requests",
        "resting",
        "send",
        "series",
        "silent",
        "size",
        "standing",
        "subscribed",
        "unconfirmed",
        "user",
        "waiting",
    )

    def __init__(
        self,
        send: Callable[[bytes], None],
        finish: Callable[[], None],
        on_identity: Callable[[Client | None], None],
        on_login: Callable[[int, User | Failure | None], None],
    ) -> None:
        self.send = send
        self.finish = finish
        self.on_identity = on_identity
        self.on_login = on_login
        self.peer = self.address = "local"
        self.library = ""
        self.requests: deque[Request] = deque()
        self.size = 0
        self.client = UNIDENTIFIED
        self.login: Login | None = None
        self.user: User | None = None
        self.subscribed: dict[int, str] | None = None
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
        self.progress: Progress | None = None
        self.drained: Callable[[], None] | None = None

    @property
    def client_id(self) -> int:
        """The client of the connection; 0 before it has identified itself."""
        return self.client.client_id

    def take_run(self, into: list[Request], kind: Kind, count: int, weight: int) -> int:
        """Moves requests of a kind from the head, up to a count and a weight, but at least one.

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
        """Returns for how many messages its first ``count`` requests are."""
        return sum(messages_of(request.packet) for request in islice(self.requests, count))

    def give_back(self, requests: list[Request]) -> None:
        """Puts requests back at the head, in their order."""
        self.requests.extendleft(reversed(requests))
        self.size += sum(request.size for request in requests)

    def clear(self) -> list[Request]:
        """Empties the pipeline. Returns its requests."""
        requests = list(self.requests)
        self.requests.clear()
        self.size = 0
        return requests

    def forget_number(self, number: int) -> None:
        """Notes that nothing is recorded for a numbered request."""
        self.unconfirmed.pop(number, None)

    def detach(self) -> None:
        """Drops the references to a lost connection. Requests under way still refer to the pipeline."""
        self.send = _send_nowhere
        self.finish = _finish_nothing
        self.on_identity = _ignore_identity
        self.on_login = _ignore_login
        self.drained = None


def _ignore_login(_packet_id: int, _outcome: User | Failure | None) -> None:
    """Takes the outcome of a login whose connection is gone."""


def _send_nowhere(_frame: bytes) -> None:
    """Takes an answer whose connection is gone."""


def _finish_nothing() -> None:
    """Closes a connection that is gone."""


def _ignore_identity(_client: Client | None) -> None:
    """Takes the identity of a connection that is gone."""


class Confirmed(TypedDict):
    """Confirmations of requests, as arguments of the procedures."""

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
    """Why a request has no answer yet."""

    #: Something that it needs is locked. It was not executed and is tried again soon.
    BUSY = 1
    #: A read found nothing.
    NOTHING = 2
    #: A read met a message that exceeds its share of the call's bytes. It is tried again with more.
    SHORT = 3


#: The frame of the answer, or why there is none yet.
Outcome = bytes | Mark

#: The number of messages that arrived, by channel and receiver.
Arrivals = dict[tuple[int, int], int]


class Results:
    """The outcomes of a batch and their consequences.

    Attributes:
        outcomes: one for each request, in their order.
        arrivals: the messages that arrived in queues and topics, or came back.
        full: puts that a queue refused as full, with the queue.
        fenced: requests of an ended session.
        failed: requests that failed as a whole.
        unrecorded: numbered requests without a record, which need no confirmation.
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
        """Notes messages that arrived in a queue or, by its channel, a topic."""
        key = (channel, receiver_id)
        self.arrivals[key] = self.arrivals.get(key, 0) + count

    def forget_arrival(self, channel: int, receiver_id: int) -> None:
        """Removes one arrived message, which was taken already."""
        key = (channel, receiver_id)
        left = self.arrivals.pop(key, 0) - 1
        if left > 0:
            self.arrivals[key] = left

    def fail(self, request: Request, failure: Failure) -> None:
        """Adds a failure as the request's outcome."""
        self.outcomes.append(error_frame(request.packet_id, failure))
        self.note_failed(request, failure)

    def note_failed(self, request: Request, failure: Failure) -> None:
        """Notes the consequences of the failure of a whole request."""
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
        stores: the requests store messages, for which the database needs space.
        moves: the requests move messages, which needs space temporarily.
    """

    stores: bool
    moves: bool

    def is_large(self, requests: Sequence[Request]) -> bool:
        """Tells whether the answer may be too large to be sent while the transaction is open."""

    def statement(self, requests: Sequence[Request]) -> Statement:
        """Makes the call of the procedure."""

    def results(self, requests: Sequence[Request], rows: Sequence[Any]) -> Results:
        """Makes the outcomes from the procedure's rows."""


class SmallAnswers:
    """A kind whose answers are small, or whose transactions lock only rows of the client."""

    stores = False
    moves = False

    def is_large(self, _requests: Sequence[Request]) -> bool:
        """Returns False."""
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
