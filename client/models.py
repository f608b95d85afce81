"""What the client's methods take and return."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from telesto.protocol.errors import TelestoError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unchanged(Enum):
    """The type of UNCHANGED."""

    UNCHANGED = "unchanged"


#: The value of a setting that ``update_queue`` leaves as it is.
UNCHANGED: Final = Unchanged.UNCHANGED


class HandOverId(NamedTuple):
    """Names one message of one read for confirming it and for giving it back."""

    session: int
    number: int
    message_id: int


@dataclass(slots=True)
class Queue:
    """A queue.

    Attributes:
        queue_id: identifies the queue; never used again after the queue is deleted.
        name: its unique name.
    """

    queue_id: int
    name: str


@dataclass(slots=True)
class Message:
    """A message that was read or browsed.

    Attributes:
        message_id: identifies the message; rises within a queue in the order of arrival.
        queue_id: the queue that held it.
        sender_id: the client that put it.
        receiver_id: the only client that may read it, None for anyone.
        context: connects a request and its response; None without one.
        priority: 1 (lowest) to 10 (highest).
        time_of_arrival_us: microseconds since the Unix epoch, by the database's clock.
        attempt: how often it has been handed over, this time included; 0 while it is browsed and never was.
        redelivered: it was handed over before and may have been processed.
        body: the content.
        hand_over: names the read that took it; None when it was browsed or delivery is "fast".
    """

    message_id: int
    queue_id: int
    sender_id: int
    receiver_id: int | None
    context: int | None
    priority: int
    time_of_arrival_us: int
    attempt: int
    redelivered: bool
    body: bytes
    hand_over: HandOverId | None = field(default=None, repr=False, compare=False)

    @property
    def time_of_arrival(self) -> datetime:
        """When the queue took the message, in UTC, by the database's clock."""
        return _EPOCH + timedelta(microseconds=self.time_of_arrival_us)

    @property
    def text(self) -> str:
        """The body as UTF-8 text. Raises UnicodeDecodeError when it is not."""
        return self.body.decode()


@dataclass(slots=True)
class NewMessage:
    """A message for ``put_many``.

    Attributes:
        body: the content, may be empty.
        priority: 1 (lowest) to 10 (highest).
        receiver_id: the only client that may read it, None for anyone.
        context: connects a request and its response; None without one.
        dedup_key: within the queue's window one message is stored under one key; None without one.
    """

    body: bytes
    priority: int = 5
    receiver_id: int | None = None
    context: int | None = None
    dedup_key: str | None = None


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


@dataclass(slots=True)
class QueueStatistics:
    """Figures of a queue.

    Attributes:
        queue_id: the queue.
        depth: messages that wait.
        directed_depth: those of them that wait for one receiver.
        put_total: messages ever put.
        taken_total: messages ever taken and not given back.
        max_messages: the bound; None when the queue has none.
    """

    queue_id: int
    depth: int
    directed_depth: int
    put_total: int
    taken_total: int
    max_messages: int | None


@dataclass(slots=True)
class QueueSettings:
    """The settings of a queue that are in effect.

    Attributes:
        max_messages: a put beyond so many messages is refused with QueueFullError; None for any number.
        dedup_window_ms: how long a ``dedup_key`` stands for the message put first under it.
    """

    max_messages: int | None
    dedup_window_ms: int
