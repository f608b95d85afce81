"""What the client's methods take and return."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from telesto.client.showing import show_fields, shown
from telesto.protocol.errors import TelestoError
from telesto.protocol.packets import ClientMode, MessageState, SubscriptionState

#: A length of time: seconds, or a timedelta.
Duration = float | timedelta

#: What a message may be put with: bytes; a text, which is put as UTF-8; or a value that is put as JSON.
Body = bytes | bytearray | memoryview | str | dict[str, Any] | list[Any] | int | float
CONTENT_TYPE = "content-type"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(microseconds: int) -> datetime:
    """Returns a time that the wire has in microseconds since the Unix epoch."""
    return _EPOCH + timedelta(microseconds=microseconds)


def value_of(body: bytes, of: str) -> Any:
    """Returns the value that a body is the JSON of."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body of {of} is no JSON: {error}; it is {shown(body)}") from error


def content_type_of(headers: Mapping[str, str]) -> str | None:
    """Returns the content type that headers tell, however its name is spelt; None without."""
    return next((value for name, value in headers.items() if name.lower() == CONTENT_TYPE), None)


class QueueHandle:
    """What the queue of any client knows of itself.

    Attributes:
        name: its unique name; empty when it is known by its id only.
        queue_id: its id; 0 before it was first used.
    """

    __slots__ = ("name", "queue_id")

    name: str
    queue_id: int


class HandOverId(NamedTuple):
    """Names one message of one read for confirming it and for giving it back."""

    session: int
    number: int
    message_id: int


class LeaseId(NamedTuple):
    """Names one message that was pushed to a consumer."""

    consumer_id: int
    lease_id: int
    message_id: int


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """A client as the service knows it.

    Attributes:
        client_id: identifies the client; never used again.
        name: its unique name.
        mode: what it may do.
        temporary: it is deleted when it is closed, or some minutes after its connection was lost for good.
    """

    client_id: int
    name: str
    mode: ClientMode
    temporary: bool


@dataclass(slots=True)
class Origin:
    """Where a dead letter that went on to a dead letter queue comes from.

    Attributes:
        queue_id: the queue in which it died.
        message_id: its id there.
        reason: why, see DeadLetter.
        attempt: how often it was handed over there.
        died_at: when it died, in UTC, by the database's clock.
    """

    queue_id: int
    message_id: int
    reason: str
    attempt: int
    died_at: datetime


@dataclass(slots=True)
class Message:
    """A message that was read or browsed.

    Attributes:
        message_id: identifies the message; rises within a queue in the order of arrival.
        queue_id: the queue that held it.
        sender_id: the client that put it.
        receiver_id: the only client that may read it, None for anyone.
        correlation_id: connects a request and its response; None without one.
        priority: 1 (lowest) to 10 (highest).
        time_of_arrival: when the queue took it, in UTC, by the database's clock.
        attempt: how often it has been handed over, this time included; 0 while it is browsed and never was.
        redelivered: it was handed over before and may have been processed.
        body: the content.
        hand_over: names the read that took it; None when it was browsed or delivery is "fast".
        lease: names the lease under which a consumer has it; None when it was not pushed to one.
        partition_key: the key of its partition; None without one.
        origin: of a dead letter that went on to this queue, where it comes from; None for any other message.
        headers: its headers, short texts by their names; empty when it has none.
    """

    message_id: int
    queue_id: int
    sender_id: int
    receiver_id: int | None
    correlation_id: int | None
    priority: int
    #: Few applications ask for the time of each message, so a datetime is made for those that do.
    _time_of_arrival_us: int = field(repr=False)
    attempt: int
    redelivered: bool
    body: bytes
    hand_over: HandOverId | None = field(default=None, repr=False, compare=False)
    lease: LeaseId | None = field(default=None, repr=False, compare=False)
    partition_key: str | None = None
    origin: Origin | None = None
    #: When it expires, by this process's monotonic clock.
    _expires_at: float | None = field(default=None, repr=False, compare=False)
    headers: dict[str, str] = field(default_factory=dict)

    __repr__ = show_fields

    @property
    def expires_in(self) -> float | None:
        """How long until it expires, in seconds, 0 when that is over; None for never, and when browsed."""
        return None if self._expires_at is None else max(0.0, self._expires_at - time.monotonic())

    @property
    def time_of_arrival(self) -> datetime:
        """When the queue took the message, in UTC, by the database's clock."""
        return utc(self._time_of_arrival_us)

    @property
    def text(self) -> str:
        """The body as UTF-8 text. Raises UnicodeDecodeError when it is not."""
        return self.body.decode()

    def json(self) -> Any:
        """Returns the value that the body is the JSON of. Raises ValueError when it is none."""
        return value_of(self.body, f"message {self.message_id}")

    @property
    def content_type(self) -> str | None:
        """What the body is, by the header ``content-type``; None when it does not say."""
        return content_type_of(self.headers)


@dataclass(slots=True)
class NewMessage:
    """A message for ``put_many``.

    Attributes:
        body: the content, see ``put`` of a queue.
        priority: 1 (lowest) to 10 (highest).
        receiver_id: the only client that may read it, None for anyone.
        correlation_id: connects a request and its response; None without one.
        dedup_key: within the queue's window one message is stored under one key; None without one.
        delay: how long nobody can read it; None for not at all.
        expires: after how long it expires; None for as long as its queue says.
        partition_key: the messages of one client under one key form a partition; None without one.
        headers: short texts by their names, see ``put`` of a queue; None without any.
        at: instead of a delay: the moment from which it can be read, with a time zone; None for at once.
    """

    body: Body
    priority: int = 5
    receiver_id: int | None = None
    correlation_id: int | None = None
    dedup_key: str | None = None
    delay: Duration | None = None
    expires: Duration | None = None
    partition_key: str | None = None
    headers: Mapping[str, str] | None = None
    at: datetime | None = None

    __repr__ = show_fields


@dataclass(slots=True)
class PutResult:
    """What became of one message in one queue.

    Attributes:
        queue_id: the queue.
        message_id: the message's id; None when the queue did not take it.
        error: why it did not; not raised by itself.
        duplicate: the queue already had a message under this ``dedup_key``, which ``message_id`` names.
    """

    queue_id: int
    message_id: int | None
    error: TelestoError | None = None
    duplicate: bool = False

    __repr__ = show_fields


@dataclass(slots=True)
class TopicMessage:
    """A message of a topic.

    Attributes:
        topic: the topic's name.
        number: its number in the topic, which rises by one with each message put.
        sender_id: the client that put it.
        time_of_arrival: when the topic took it, in UTC, by the database's clock.
        body: the content.
        subscription_id: the subscription by which it came.
        headers: its headers, short texts by their names; empty when it has none.
    """

    topic: str
    number: int
    sender_id: int
    _time_of_arrival_us: int = field(repr=False)
    body: bytes
    subscription_id: int = field(default=0, repr=False, compare=False)
    headers: dict[str, str] = field(default_factory=dict)

    __repr__ = show_fields

    @property
    def time_of_arrival(self) -> datetime:
        """When the topic took the message, in UTC, by the database's clock."""
        return utc(self._time_of_arrival_us)

    def arrival(self) -> tuple[int, int, int]:
        """By this, messages of several topics are sorted in the order of their arrival."""
        return self._time_of_arrival_us, self.subscription_id, self.number

    @property
    def text(self) -> str:
        """The body as UTF-8 text. Raises UnicodeDecodeError when it is not."""
        return self.body.decode()

    def json(self) -> Any:
        """Returns the value that the body is the JSON of. Raises ValueError when it is none."""
        return value_of(self.body, f"message {self.number} of topic {self.topic!r}")

    @property
    def content_type(self) -> str | None:
        """What the body is, by the header ``content-type``; None when it does not say."""
        return content_type_of(self.headers)


@dataclass(slots=True)
class NewTopicMessage:
    """A message for ``put_many`` of a topic.

    Attributes:
        body: the content, see ``put`` of a queue.
        sequence: the publisher's own number in the topic, 1, 2, 3, ...; None without.
        headers: short texts by their names, see ``put`` of a queue; None without any.
    """

    body: Body
    sequence: int | None = None
    headers: Mapping[str, str] | None = None

    __repr__ = show_fields


@dataclass(slots=True)
class TopicPutResult:
    """What became of one message put to a topic.

    Attributes:
        number: its number in the topic; None when it was not put, 0 for an earlier one that was put before
            and whose number is no longer known.
        duplicate: the publisher's sequence was put before; it was not put again.
        error: why it was not put; not raised by itself.
    """

    number: int | None
    duplicate: bool = False
    error: TelestoError | None = None

    __repr__ = show_fields


@dataclass(slots=True)
class TopicStatistics:
    """Figures of a topic.

    Attributes:
        topic_id: identifies the topic.
        name: its name.
        last_number: the number of the last message put; 0 before the first.
        subscribers: subscriptions that are owed what is put.
        depth: messages that some subscription has not confirmed yet.
    """

    topic_id: int
    name: str
    last_number: int
    subscribers: int
    depth: int


@dataclass(slots=True)
class QueueFigures:
    """A queue as it is listed.

    Attributes:
        queue_id: identifies the queue.
        name: its name.
        depth: messages that wait.
    """

    queue_id: int
    name: str
    depth: int


@dataclass(slots=True)
class ClientFigures:
    """A client as it is listed.

    Attributes:
        client_id: identifies the client.
        name: its name.
        mode: what it may do.
        temporary: it lasts as long as it is connected.
        session_at: when it connected the last time, in UTC, by the database's clock.
        process: the process that did, as it calls itself, such as ``host:pid``; None when not known.
        library: the name and version of its library; None when not known.
        address: the address of its connection; None when not known.
        unconfirmed: messages that it was handed over and has not confirmed; 1,000 for more.
        subscriptions: topics to which it subscribes; 1,000 for more.
    """

    client_id: int
    name: str
    mode: ClientMode
    temporary: bool
    session_at: datetime
    process: str | None
    library: str | None
    address: str | None
    unconfirmed: int
    subscriptions: int


@dataclass(slots=True)
class ConsumerFigures:
    """A consumer as it is listed.

    Attributes:
        consumer_id: identifies the consumer.
        queue_id: its queue.
        queue: that queue's name.
        client_id: its client.
        client: that client's name; None when the client is gone.
        middleware_id: the middleware to which it is connected.
        joined_at: since when, in UTC, by the database's clock.
        leases: messages that it has and has not acknowledged; 1,000 for more.
        paused: it has joined without credit, or has set it to 0.
        slow: it counts as slow now; others are served first.
    """

    consumer_id: int
    queue_id: int
    queue: str
    client_id: int
    client: str | None
    middleware_id: int
    joined_at: datetime
    leases: int
    paused: bool
    slow: bool


@dataclass(slots=True)
class MiddlewareFigures:
    """A running middleware as it is listed.

    Attributes:
        middleware_id: identifies the middleware.
        address: where clients reach it.
        version: its release.
        started_at: since when it runs, in UTC, by the database's clock.
        heartbeat_at: its last sign of life, likewise; one that died is listed until another removes it.
        consumers: consumers that are connected to it.
    """

    middleware_id: int
    address: str
    version: str
    started_at: datetime
    heartbeat_at: datetime
    consumers: int


@dataclass(slots=True)
class Subscription:
    """A subscription of this client as it is listed.

    Attributes:
        subscription_id: identifies the subscription.
        topic: the topic's name.
        position: all messages up to this number are confirmed.
        last_number: the number of the topic's last message.
        state: how it stands to its limit.
        max_behind: its limit in messages; None for none.
        max_age: its limit in seconds; None for none.
        drop: beyond the limit it is dropped.
    """

    subscription_id: int
    topic: str
    position: int
    last_number: int
    state: SubscriptionState
    max_behind: int | None
    max_age: float | None
    drop: bool

    @property
    def lag(self) -> int:
        """How many messages it is behind."""
        return self.last_number - self.position


@dataclass(slots=True)
class DeadLetter:
    """A message that left its queue without having been processed.

    Attributes:
        message: the message; its ``attempt`` is how often it was handed over.
        reason: ``failed`` (consumers gave it back as failed), ``late`` (their time was up) or ``lost`` (their
            connections were) for the last of ``max_attempts`` attempts, ``rejected: ...`` (a consumer could
            not process it, and says why), ``expired``, or ``unconfirmed`` (handed over to a client that never
            confirmed it).
        died_at: since when, in UTC, by the database's clock.
        client_id: the client that had it last; None for nobody.
    """

    message: Message
    reason: str
    died_at: datetime
    client_id: int | None


@dataclass(slots=True)
class RecoveredPut:
    """A message that was put by a call which did not tell what became of it.

    Attributes:
        queue_id: the queue; None for a message to a topic.
        topic: the topic; None for a message to a queue.
        message: what was put.
        message_id: the message's id, in a topic its number; None when it was not put, or when that cannot be
            found out.
        duplicate: it had been put before under its ``dedup_key`` or ``sequence``.
        error: why it was not put, or why it is not known; ``error_class`` tells which of them.
    """

    queue_id: int | None
    topic: str | None
    message: NewMessage | NewTopicMessage
    message_id: int | None
    duplicate: bool = False
    error: TelestoError | None = None

    __repr__ = show_fields


@dataclass(slots=True)
class QueueStatistics:
    """Figures of a queue.

    Attributes:
        queue_id: the queue.
        depth: messages that wait.
        directed_depth: those of them that wait for one receiver.
        ready: those of them that can be handed over now: without a key, or the first of a key of which
            nothing is leased. A message with a key is for consumers; ``get`` and ``browse`` pass over it.
        delayed: those of them whose time has not come and that nobody has had.
        backing_off: those of them whose time has not come and that came back from a consumer.
        keyed: those of them that wait behind another message of their key, which waits or is leased.
        leased: messages that consumers have.
        dead: dead letters.
        put_total: messages ever put.
        taken_total: messages ever taken and not given back.
        max_messages: the bound; None when the queue has none.
        oldest_age: for how long the oldest of the messages that wait, but not for one receiver, has been
            there, in seconds; None when there is none.
        exact: False when there is more of a kind than the service counts one by one (its setting
            ``statistics_rows``): then ``ready``, ``delayed``, ``backing_off``, ``keyed``, ``leased``,
            ``dead`` and ``oldest_age`` may be higher than is said. The other figures are always exact.
    """

    queue_id: int
    depth: int
    directed_depth: int
    ready: int
    delayed: int
    backing_off: int
    keyed: int
    leased: int
    dead: int
    put_total: int
    taken_total: int
    max_messages: int | None
    oldest_age: float | None
    exact: bool


@dataclass(slots=True)
class MessageRecord:
    """What is known of a message: where it is now, or how it or one of its hand-overs ended.

    Names and addresses are None when the queue, client or middleware is not known any more.

    Attributes:
        state: where it is, or how it ended.
        queue_id, queue_name: its queue.
        sender_id, sender_name: the client that put it.
        receiver_id: the only client that may read it, None for anyone.
        priority: 1 (lowest) to 10 (highest).
        correlation_id: connects a request and its response; None without one.
        put_at: when the queue took it, in UTC, by the database's clock, as all times here.
        put_through, put_address: the middleware through which; None when it was put from SQL.
        attempt: how often it has been handed over.
        redelivered: it came back to its queue after a hand-over.
        client_id, client_name: the client to which it was handed over last; None if never.
        session, number: the read; the session is 0 for one from SQL, the number 0 for one without a record.
            None for a consumer.
        consumer_id, lease_id: the consumer that has or had it, and the lease; None for a read.
        handed_over_at: when; of one that is not confirmed, or when a takeover listed it last.
        handed_over_through, handed_over_address: the middleware through which; None for one from SQL.
        due_at: when it can be read, of one that is DELAYED.
        deadline: until when the consumer has it, of one that is LEASED.
        ended_at: when that ended, or it became a dead letter; None for where it is now.
        reason: why it came back from a consumer, or died.
        body: the content, if the queue's history is full, in the last record that has it; None for a message
            to another client alone that this one did not put, or when it does not fit into a frame.
        headers: its headers, where it is now and in the last record of how it ended; else empty, as where a
            body would be None.
    """

    state: MessageState
    queue_id: int
    queue_name: str | None
    sender_id: int
    sender_name: str | None
    receiver_id: int | None
    priority: int
    correlation_id: int | None
    put_at: datetime
    put_through: int | None
    put_address: str | None
    attempt: int
    redelivered: bool
    client_id: int | None
    client_name: str | None
    session: int | None
    number: int | None
    consumer_id: int | None
    lease_id: int | None
    handed_over_at: datetime | None
    handed_over_through: int | None
    handed_over_address: str | None
    due_at: datetime | None
    deadline: datetime | None
    ended_at: datetime | None
    reason: str | None
    body: bytes | None
    headers: dict[str, str]

    __repr__ = show_fields


@dataclass(slots=True)
class MessageHistory:
    """What is known of a message.

    Attributes:
        message_id: the message.
        records: how its hand-overs and it ended, the oldest first; then where it is now. Never empty.
    """

    message_id: int
    records: list[MessageRecord]

    @property
    def state(self) -> MessageState:
        """Where the message is, or how it ended last."""
        return self.records[-1].state
