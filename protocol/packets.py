# Generated from protocol/spec/telesto.toml by "python -m tools.codegen"; do not edit.
"""The packets of the protocol with their codecs.

Packets that are rare are encoded and decoded by telesto.protocol.layouts. The others have their own codecs,
for speed. A decoder that meets anything unexpected leaves it to the layouts to say what and where; an encoder
does the same with values that do not fit. Neither pays for that as long as all is well.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from telesto.protocol.enums import (
    ClientMode,
    ConnectionState,
    ErrorClass,
    HistoryMode,
    MessageState,
    ReadMode,
    SubscriptionState,
)
from telesto.protocol.layouts import Layout, Layouts
from telesto.protocol.packet import Packet, RequestInfo, Structure
from telesto.protocol.primitives import (
    BOOLS,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    Packers,
    Unpackers,
    check_end,
    read_tags,
    skip_tags,
    write_tagged,
)

__all__ = [
    "DEFAULT_PORT",
    "MAGIC",
    "MAX_FRAME_DEFAULT",
    "MAX_FRAME_LEAST",
    "MAX_FRAME_UNIDENTIFIED",
    "PACKETS",
    "PROTOCOL_MAJOR",
    "PROTOCOL_MINOR",
    "REQUESTS",
    "Ack",
    "AckResponse",
    "Alive",
    "Authenticate",
    "AuthenticateResponse",
    "Begin",
    "CancelMessage",
    "CancelMessageResponse",
    "CancelRequest",
    "CancelRequestResponse",
    "ClientFigures",
    "ClientMode",
    "Confirm",
    "ConfirmPositions",
    "ConnectionState",
    "ConsumerFigures",
    "CreateQueue",
    "CreateQueueResponse",
    "Credit",
    "DeadLetter",
    "DeleteClient",
    "DeleteDeadLetters",
    "DeleteDeadLettersResponse",
    "DeleteQueue",
    "DeleteTopic",
    "Deliver",
    "Delivery",
    "ElementResult",
    "Error",
    "ErrorClass",
    "GetActiveQueues",
    "GetActiveQueuesResponse",
    "GetFromTopics",
    "GetFromTopicsResponse",
    "GetMessageHistory",
    "GetMessageHistoryResponse",
    "GetMessages",
    "GetMessagesResponse",
    "GetQueueId",
    "GetQueueIdResponse",
    "GetQueueName",
    "GetQueueNameResponse",
    "GetQueueSettings",
    "GetQueueSettingsResponse",
    "GetQueueStatistics",
    "GetQueueStatisticsResponse",
    "GetQueues",
    "GetQueuesResponse",
    "GoAway",
    "HandOver",
    "HandOverRef",
    "Header",
    "Hello",
    "HelloResponse",
    "HistoryMode",
    "IdentifyClient",
    "IdentifyClientResponse",
    "JoinQueue",
    "JoinQueueResponse",
    "LeaseLost",
    "LeaseRef",
    "LeaveQueue",
    "ListClients",
    "ListClientsResponse",
    "ListConsumers",
    "ListConsumersResponse",
    "ListDeadLetters",
    "ListDeadLettersResponse",
    "ListMiddlewares",
    "ListMiddlewaresResponse",
    "ListQueues",
    "ListQueuesResponse",
    "ListSubscriptions",
    "ListSubscriptionsResponse",
    "ListTopics",
    "ListTopicsResponse",
    "ListUnconfirmed",
    "ListUnconfirmedResponse",
    "Message",
    "MessageRecord",
    "MessageState",
    "MiddlewareFigures",
    "Nack",
    "NackResponse",
    "NewMessage",
    "NewTopicMessage",
    "OperationRef",
    "OperationResult",
    "Origin",
    "Packet",
    "Ping",
    "Pong",
    "PurgeQueue",
    "PurgeQueueResponse",
    "PutMessage",
    "PutMessageResponse",
    "PutMessages",
    "PutMessagesResponse",
    "PutResult",
    "PutToTopic",
    "PutToTopicResponse",
    "Queue",
    "QueueFigures",
    "QueueSettings",
    "QueuedMessage",
    "ReadMessage",
    "ReadMessageResponse",
    "ReadMode",
    "ReadResponse",
    "ReadResponseResponse",
    "RedriveDeadLetters",
    "RedriveDeadLettersResponse",
    "RegisterClient",
    "RegisterClientResponse",
    "Release",
    "RequestInfo",
    "Subscribe",
    "SubscribeResponse",
    "SubscriptionFigures",
    "SubscriptionName",
    "SubscriptionState",
    "Success",
    "TopicFigures",
    "TopicMessage",
    "TopicPosition",
    "TopicPutResult",
    "Touch",
    "TouchResponse",
    "Unsubscribe",
    "UpdateQueue",
]

PROTOCOL_MAJOR = 1
PROTOCOL_MINOR = 0
#: The first field of Hello.
MAGIC = 0x544C5354
DEFAULT_PORT = 7001
#: The longest frame until the client is identified, in bytes after the length field.
MAX_FRAME_LEAST = 16_384
MAX_FRAME_UNIDENTIFIED = 4_096
#: The longest frame after that unless the two sides agree on less, in bytes after the length field.
MAX_FRAME_DEFAULT = 16_777_216

_PACK_I64 = struct.Struct(">q").pack
_PACK_I64X2_U16 = struct.Struct(">qqH").pack
_PACK_I64X2_U32_U8 = struct.Struct(">qqIB").pack
_PACK_I64X2_U8 = struct.Struct(">qqB").pack
_PACK_I64X2_U8X2 = struct.Struct(">qqBB").pack
_PACK_I64X2_U8X2_U16 = struct.Struct(">qqBBH").pack
_PACK_I64X2_U8_U32X3_U8 = struct.Struct(">qqBIIIB").pack
_PACK_I64X3 = struct.Struct(">qqq").pack
_PACK_I64X3_U8 = struct.Struct(">qqqB").pack
_PACK_I64X4_U32 = struct.Struct(">qqqqI").pack
_PACK_I64X4_U8_I64_U16_U8_U32 = struct.Struct(">qqqqBqHBI").pack
_PACK_I64X5_U8_I64_U16_U8_U32 = struct.Struct(">qqqqqBqHBI").pack
_PACK_I64_U16 = struct.Struct(">qH").pack
_PACK_I64_U8 = struct.Struct(">qB").pack
_PACK_I64_U8X2 = struct.Struct(">qBB").pack
_PACK_I64_U8X2_U16 = struct.Struct(">qBBH").pack
_PACK_I64_U8_I64_U32 = struct.Struct(">qBqI").pack
_PACK_I64_U8_U16 = struct.Struct(">qBH").pack
_PACK_U16 = struct.Struct(">H").pack
_PACK_U16_I64_U8 = struct.Struct(">HqB").pack
_PACK_U32 = struct.Struct(">I").pack
_PACK_U32X3_U8 = struct.Struct(">IIIB").pack
_PACK_U32_U16_U32X2 = struct.Struct(">IHII").pack
_PACK_U32_U16_U32_I64_U16 = struct.Struct(">IHIqH").pack
_PACK_U32_U16_U32_I64_U32 = struct.Struct(">IHIqI").pack
_PACK_U32_U16_U32_I64_U32X2_U8 = struct.Struct(">IHIqIIB").pack
_PACK_U32_U16_U32_U16_U8_U16 = struct.Struct(">IHIHBH").pack
_PACK_U32_U16_U32_U64_U32 = struct.Struct(">IHIQI").pack
_PACK_U32_U16_U32_U8 = struct.Struct(">IHIB").pack
_PACK_U64X2 = struct.Struct(">QQ").pack
_PACK_U64X2_I64 = struct.Struct(">QQq").pack
_PACK_U64X2_I64X4_U8_I64_U16_U8_U32 = struct.Struct(">QQqqqqBqHBI").pack
_PACK_U64X2_U16_U32 = struct.Struct(">QQHI").pack
_PACK_U64_U32 = struct.Struct(">QI").pack
_PACK_U8 = struct.Struct(">B").pack
_PACK_U8X2 = struct.Struct(">BB").pack
_PACK_U8_I64 = struct.Struct(">Bq").pack
_PACK_U8_I64_U32 = struct.Struct(">BqI").pack
_PACK_U8_I64_U8 = struct.Struct(">BqB").pack
_PACK_U8_U16X2 = struct.Struct(">BHH").pack
_PACK_U8_U32_U8 = struct.Struct(">BIB").pack
_PACK_U8_U64_U16 = struct.Struct(">BQH").pack
_PACK_U64S = Packers("Q")
_PACK_I64S = Packers("q")
_UNPACK_I64 = struct.Struct(">q").unpack_from
_UNPACK_I64X2_U16 = struct.Struct(">qqH").unpack_from
_UNPACK_I64X2_U32_U8 = struct.Struct(">qqIB").unpack_from
_UNPACK_I64X2_U8 = struct.Struct(">qqB").unpack_from
_UNPACK_I64X2_U8X2 = struct.Struct(">qqBB").unpack_from
_UNPACK_I64X2_U8_U32X3_U8 = struct.Struct(">qqBIIIB").unpack_from
_UNPACK_I64X3 = struct.Struct(">qqq").unpack_from
_UNPACK_I64X3_U8 = struct.Struct(">qqqB").unpack_from
_UNPACK_I64X4_U32 = struct.Struct(">qqqqI").unpack_from
_UNPACK_I64X4_U8_I64_U16_U8_U32 = struct.Struct(">qqqqBqHBI").unpack_from
_UNPACK_I64X5_U8_I64_U16_U8_U32 = struct.Struct(">qqqqqBqHBI").unpack_from
_UNPACK_I64_U16 = struct.Struct(">qH").unpack_from
_UNPACK_I64_U32 = struct.Struct(">qI").unpack_from
_UNPACK_I64_U32X2_U8 = struct.Struct(">qIIB").unpack_from
_UNPACK_I64_U8 = struct.Struct(">qB").unpack_from
_UNPACK_I64_U8X2 = struct.Struct(">qBB").unpack_from
_UNPACK_I64_U8_I64_U32 = struct.Struct(">qBqI").unpack_from
_UNPACK_U16 = struct.Struct(">H").unpack_from
_UNPACK_U16_I64_U8 = struct.Struct(">HqB").unpack_from
_UNPACK_U16_U8_U16 = struct.Struct(">HBH").unpack_from
_UNPACK_U32 = struct.Struct(">I").unpack_from
_UNPACK_U32X3_U8 = struct.Struct(">IIIB").unpack_from
_UNPACK_U64X2 = struct.Struct(">QQ").unpack_from
_UNPACK_U64X2_I64 = struct.Struct(">QQq").unpack_from
_UNPACK_U64X2_I64X4_U8_I64_U16_U8_U32 = struct.Struct(">QQqqqqBqHBI").unpack_from
_UNPACK_U64X2_U16_U32 = struct.Struct(">QQHI").unpack_from
_UNPACK_U64_U32 = struct.Struct(">QI").unpack_from
_UNPACK_U8X2 = struct.Struct(">BB").unpack_from
_UNPACK_U8_I64_U32 = struct.Struct(">BqI").unpack_from
_UNPACK_U8_U16X2 = struct.Struct(">BHH").unpack_from
_UNPACK_U8_U64_U16 = struct.Struct(">BQH").unpack_from
_UNPACK_U64S = Unpackers("Q")
_UNPACK_I64S = Unpackers("q")

_CLIENT_MODE_BY_VALUE: dict[int, ClientMode] = {member.value: member for member in ClientMode}
_READ_MODE_BY_VALUE: dict[int, ReadMode] = {member.value: member for member in ReadMode}
_SUBSCRIPTION_STATE_BY_VALUE: dict[int, SubscriptionState] = {
    member.value: member for member in SubscriptionState
}
_ERROR_CLASS_BY_VALUE: dict[int, ErrorClass] = {member.value: member for member in ErrorClass}
_NEW_MESSAGE_TAGS = frozenset({1, 2, 3, 4, 5})
_MESSAGE_TAGS = frozenset({1, 2, 3, 4})
_NEW_TOPIC_MESSAGE_TAGS = frozenset({1, 2})
_TOPIC_MESSAGE_TAGS = frozenset({1})
_SUBSCRIPTION_FIGURES_TAGS = frozenset({1, 2, 3})
_IDENTIFY_CLIENT_RESPONSE_TAGS = frozenset({1, 2})
_LIST_UNCONFIRMED_RESPONSE_TAGS = frozenset({1, 2})
_NACK_TAGS = frozenset({1, 2, 3})


class Queue(Structure):
    """A queue as clients see it.

    Attributes:
        queue_id: Identifies the queue; never used again after the queue is deleted.
        name: Unique name, see [Names](#names).
    """

    __slots__ = ("queue_id", "name")

    def __init__(self, queue_id: int, name: str) -> None:
        self.queue_id = queue_id
        self.name = name


class QueueSettings(Structure):
    """Settings of a queue, those that are given.

    Attributes:
        max_messages: A put that would exceed this number of messages is refused with QUEUE_FULL. It may
            be set below what the queue holds: then puts are refused until there is space. 1 or more; unless
            it is given: no limit. Tag 1; may be left out.
        dedup_window_ms: How long a dedup_key stands for the message that was put first under it.
            Milliseconds, 1,000 to 604,800,000; unless it is given: 300,000. Tag 2; may be left out.
        lease_ms: How long a consumer may take for a message before that goes to another one.
            Milliseconds, 100 to 86,400,000; unless it is given: 30,000. Tag 3; may be left out.
        max_attempts: A message whose attempts by consumers failed so often goes to the dead letters. 1 to
            1,000,000; unless it is given: 5. Tag 4; may be left out.
        backoff_ms: How long a message waits after its first failed attempt; twice as long after each
            further one. It is shortened at random by up to a half. Milliseconds, 0 to 86,400,000; unless it
            is given: 1,000. Tag 5; may be left out.
        backoff_max_ms: The longest wait after a failed attempt. Milliseconds, 0 to 86,400,000; unless it
            is given: 60,000. Tag 6; may be left out.
        expires_ms: How long a message may wait before it expires; what has expired is never handed over.
            A change holds for what is put from then on. Milliseconds, 1 to 315,360,000,000; unless it is
            given: never. Tag 7; may be left out.
        bury_expired: What has expired goes to the dead letters; otherwise it is removed. Unless it is
            given: no. Tag 8; may be left out.
        dead_letter_queue: The queue to which dead letters go on, as messages. What does not fit there, or
            whose dead letter queue is gone, stays too. One that does not exist is refused with
            QUEUE_NOT_EXISTING, whose related_id names it. Queues that would send dead letters round in a ring
            are refused. A change holds for what is dead already, too. The id of a queue; unless it is given:
            dead letters stay in their queue. Tag 9; may be left out.
        late_after_ms: An answer of a consumer is late when it takes longer than this. It is counted from
            when the message was pushed or touched, or from the consumer's answer before, whatever was last. A
            change holds for consumers that join from then on. Milliseconds, 1 to 86,400,000; unless it is
            given: a third of lease_ms. Tag 10; may be left out.
        late_limit: A consumer with this many late answers within late_window_ms is slow, and its
            partitions go to others for that long; 0: never. A change holds for consumers that join from then
            on. 0 to 1,000; unless it is given: 3. Tag 11; may be left out.
        late_window_ms: The window of late_limit, and for how long others have the partitions of a slow
            consumer. A change holds for consumers that join from then on. Milliseconds, 100 to 86,400,000;
            unless it is given: 60,000. Tag 12; may be left out.
        fail_limit: A consumer that fails so often in a row, by leases that run out or by different
            messages that it gives back as failed, is ended with CONSUMER_INACTIVE; 0: never. A change holds
            for consumers that join from then on. 0 to 1,000; unless it is given: 0. Tag 13; may be left out.
        history: What is kept of messages once they are over. A change holds for what is put from then on.
            Unless it is given: METADATA. Tag 14; may be left out.
        history_days: For how many days that is kept. A change holds for what is put from then on. Days, 1
            to 366; unless it is given: 7. Tag 15; may be left out.
    """

    __slots__ = (
        "max_messages",
        "dedup_window_ms",
        "lease_ms",
        "max_attempts",
        "backoff_ms",
        "backoff_max_ms",
        "expires_ms",
        "bury_expired",
        "dead_letter_queue",
        "late_after_ms",
        "late_limit",
        "late_window_ms",
        "fail_limit",
        "history",
        "history_days",
    )

    def __init__(
        self,
        *,
        max_messages: int | None = None,
        dedup_window_ms: int | None = None,
        lease_ms: int | None = None,
        max_attempts: int | None = None,
        backoff_ms: int | None = None,
        backoff_max_ms: int | None = None,
        expires_ms: int | None = None,
        bury_expired: bool | None = None,
        dead_letter_queue: int | None = None,
        late_after_ms: int | None = None,
        late_limit: int | None = None,
        late_window_ms: int | None = None,
        fail_limit: int | None = None,
        history: HistoryMode | None = None,
        history_days: int | None = None,
    ) -> None:
        self.max_messages = max_messages
        self.dedup_window_ms = dedup_window_ms
        self.lease_ms = lease_ms
        self.max_attempts = max_attempts
        self.backoff_ms = backoff_ms
        self.backoff_max_ms = backoff_max_ms
        self.expires_ms = expires_ms
        self.bury_expired = bury_expired
        self.dead_letter_queue = dead_letter_queue
        self.late_after_ms = late_after_ms
        self.late_limit = late_limit
        self.late_window_ms = late_window_ms
        self.fail_limit = fail_limit
        self.history = history
        self.history_days = history_days


class Header(Structure):
    """A header of a message: a short text under a name.

    Attributes:
        name: 1 to 128 bytes, no control characters; case matters.
        value: Up to 1024 bytes, no NUL character; may be empty.
    """

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self.value = value


class NewMessage(Structure):
    """A message as a client puts it.

    Attributes:
        priority: 1 (lowest) to 10 (highest).
        receiver_id: The only client that may read the message; 0 for anyone.
        body: The content; may be empty.
        context: Connects a request and its response.
        dedup_key: 1 to 255 characters, no control characters: within a queue's window (dedup_window_ms)
            one message is stored under one key. Tag 1; may be left out.
        partition_key: 1 to 255 characters, no control characters, and not together with a receiver: the
            messages of one sender under one key form a partition. Only consumers get them, one consumer at a
            time, in the order in which they were put; plain reads pass over them. Tag 2; may be left out.
        delay_ms: How long it cannot be read, in milliseconds: 0 to 315360000000 (ten years). Tag 3; may
            be left out.
        expires_ms: After how long it expires, in milliseconds, unless its queue has it expire sooner: 0
            to 315360000000 (ten years). What has expired is never handed over. With 0 its time is over
            already: it is not stored, and the result's message_id is 0. Tag 4; may be left out.
        headers: Up to 64 headers, each name once, with 8192 bytes of names and values in all. They count
            as bytes of the body: 16, and 4 and its name and value for each. Tag 5; may be left out.
    """

    __slots__ = (
        "priority",
        "receiver_id",
        "body",
        "context",
        "dedup_key",
        "partition_key",
        "delay_ms",
        "expires_ms",
        "headers",
    )

    def __init__(
        self,
        priority: int,
        receiver_id: int,
        body: bytes,
        context: int | None,
        *,
        dedup_key: str | None = None,
        partition_key: str | None = None,
        delay_ms: int | None = None,
        expires_ms: int | None = None,
        headers: list[Header] | None = None,
    ) -> None:
        self.priority = priority
        self.receiver_id = receiver_id
        self.body = body
        self.context = context
        self.dedup_key = dedup_key
        self.partition_key = partition_key
        self.delay_ms = delay_ms
        self.expires_ms = expires_ms
        self.headers = headers


class QueuedMessage(Structure):
    """A message and the queue that it goes to.

    Attributes:
        queue_id: The queue.
        message: The message.
    """

    __slots__ = ("queue_id", "message")

    def __init__(self, queue_id: int, message: NewMessage) -> None:
        self.queue_id = queue_id
        self.message = message


class Origin(Structure):
    """Where a dead letter that went on to a dead letter queue comes from.

    Attributes:
        queue_id: The queue in which it died.
        message_id: Its id there.
        reason: Why, as in DeadLetter.
        attempt: How often it was handed over there.
        died_at: When it died, in microseconds since the Unix epoch, UTC, by the database's clock.
    """

    __slots__ = ("queue_id", "message_id", "reason", "attempt", "died_at")

    def __init__(self, queue_id: int, message_id: int, reason: str, attempt: int, died_at: int) -> None:
        self.queue_id = queue_id
        self.message_id = message_id
        self.reason = reason
        self.attempt = attempt
        self.died_at = died_at


class Message(Structure):
    """A message as it is handed over or browsed.

    Attributes:
        message_id: Identifies the message; rises within a queue in the order of arrival.
        queue_id: The queue that held it.
        sender_id: The client that put it.
        receiver_id: The only client that may read it; 0 for anyone.
        priority: 1 (lowest) to 10 (highest).
        time_of_arrival: Microseconds since the Unix epoch, UTC, by the database's clock.
        attempt: How often it has been handed over, this time included; 0 while it is browsed and never
            was. By consumers, deliveries count that had begun.
        redelivered: It was handed over before and may have been processed.
        body: The content.
        context: Connects a request and its response.
        partition_key: The key of its partition, which the sender's messages with this key form. Tag 1;
            may be left out.
        origin: Of a dead letter that went on to this queue: where it comes from. Tag 2; may be left out.
        expires_ms: When it is handed over: how long until it expires, in milliseconds; absent for never.
            Who puts a request and gives up after a time has the request expire then; who responds has the
            response expire then too: after this `expires_ms` less the time since the hand-over, and after 0
            when that is over, so that no response stays for somebody who is gone. Tag 3; may be left out.
        headers: Its headers, in no particular order; missing without any. Tag 4; may be left out.
    """

    __slots__ = (
        "message_id",
        "queue_id",
        "sender_id",
        "receiver_id",
        "priority",
        "time_of_arrival",
        "attempt",
        "redelivered",
        "body",
        "context",
        "partition_key",
        "origin",
        "expires_ms",
        "headers",
    )

    def __init__(
        self,
        message_id: int,
        queue_id: int,
        sender_id: int,
        receiver_id: int,
        priority: int,
        time_of_arrival: int,
        attempt: int,
        redelivered: bool,
        body: bytes,
        context: int | None,
        *,
        partition_key: str | None = None,
        origin: Origin | None = None,
        expires_ms: int | None = None,
        headers: list[Header] | None = None,
    ) -> None:
        self.message_id = message_id
        self.queue_id = queue_id
        self.sender_id = sender_id
        self.receiver_id = receiver_id
        self.priority = priority
        self.time_of_arrival = time_of_arrival
        self.attempt = attempt
        self.redelivered = redelivered
        self.body = body
        self.context = context
        self.partition_key = partition_key
        self.origin = origin
        self.expires_ms = expires_ms
        self.headers = headers


class PutResult(Structure):
    """What became of one message in one queue.

    Attributes:
        queue_id: The queue.
        message_id: The message's id; 0 when the queue did not take it, and without an error when its time
            was over already.
        duplicate: The queue already had a message with this key; message_id is that message's.
        error: Why the queue did not take it: an error code.
    """

    __slots__ = ("queue_id", "message_id", "duplicate", "error")

    def __init__(self, queue_id: int, message_id: int, duplicate: bool, error: int | None) -> None:
        self.queue_id = queue_id
        self.message_id = message_id
        self.duplicate = duplicate
        self.error = error


class ElementResult(Structure):
    """The recorded result of one part of a numbered request.

    Attributes:
        related_id: What the request produced or is about, see "How answers are rebuilt".
        error: The error code that it was answered with.
    """

    __slots__ = ("related_id", "error")

    def __init__(self, related_id: int, error: int | None) -> None:
        self.related_id = related_id
        self.error = error


class OperationResult(Structure):
    """A numbered request that was executed and whose answer the client has not confirmed.

    Attributes:
        session: The session in which it was sent.
        number: Its number in that session.
        method_id: The request's method id.
        results: One result for each part, in the request's order.
    """

    __slots__ = ("session", "number", "method_id", "results")

    def __init__(self, session: int, number: int, method_id: int, results: list[ElementResult]) -> None:
        self.session = session
        self.number = number
        self.method_id = method_id
        self.results = results


class HandOver(Structure):
    """A message that was handed over and that the client has not confirmed.

    Attributes:
        session: The session of the read.
        number: The read's number in that session.
        message: The message.
    """

    __slots__ = ("session", "number", "message")

    def __init__(self, session: int, number: int, message: Message) -> None:
        self.session = session
        self.number = number
        self.message = message


class OperationRef(Structure):
    """Names a numbered request of an earlier session.

    Attributes:
        session: The session in which it was sent.
        number: Its number in that session.
    """

    __slots__ = ("session", "number")

    def __init__(self, session: int, number: int) -> None:
        self.session = session
        self.number = number


class HandOverRef(Structure):
    """Names one message of one read.

    Attributes:
        session: The session of the read.
        number: The read's number in that session.
        message_id: The message.
    """

    __slots__ = ("session", "number", "message_id")

    def __init__(self, session: int, number: int, message_id: int) -> None:
        self.session = session
        self.number = number
        self.message_id = message_id


class NewTopicMessage(Structure):
    """A message as a client puts it to a topic.

    Attributes:
        body: The content; may be empty.
        sequence: The publisher's own number in this topic: 1, 2, 3, ... A number that was put before is
            acknowledged again and stored once; one beyond the next is refused with SEQUENCE_GAP. Tag 1; may
            be left out.
        headers: As those of NewMessage. Tag 2; may be left out.
    """

    __slots__ = ("body", "sequence", "headers")

    def __init__(
        self, body: bytes, *, sequence: int | None = None, headers: list[Header] | None = None
    ) -> None:
        self.body = body
        self.sequence = sequence
        self.headers = headers


class TopicPutResult(Structure):
    """What became of one message.

    Attributes:
        number: The message's number in its topic; with SEQUENCE_GAP the sequence that is expected next. 0
            for an earlier message whose number is no longer known, and when it was not put.
        duplicate: The publisher's sequence was put before.
        error: Why it was not put: an error code.
    """

    __slots__ = ("number", "duplicate", "error")

    def __init__(self, number: int, duplicate: bool, error: int | None) -> None:
        self.number = number
        self.duplicate = duplicate
        self.error = error


class TopicPosition(Structure):
    """How far a client is in a subscription.

    Attributes:
        subscription_id: The subscription.
        confirmed: The client has all messages up to this number; 0 for what the database knows. It never
            falls.
        after: Messages are wanted from behind this number on, without confirming it; 0 or a lower number
            than confirmed: from behind what is confirmed.
    """

    __slots__ = ("subscription_id", "confirmed", "after")

    def __init__(self, subscription_id: int, confirmed: int, after: int) -> None:
        self.subscription_id = subscription_id
        self.confirmed = confirmed
        self.after = after


class TopicMessage(Structure):
    """A message of a topic.

    Attributes:
        subscription_id: The subscription by which it came.
        number: Its number in its topic, which rises by one with each message put.
        sender_id: The client that put it.
        time_of_arrival: Microseconds since the Unix epoch, UTC, by the database's clock.
        body: The content.
        headers: Its headers, in no particular order; missing without any. Tag 1; may be left out.
    """

    __slots__ = ("subscription_id", "number", "sender_id", "time_of_arrival", "body", "headers")

    def __init__(
        self,
        subscription_id: int,
        number: int,
        sender_id: int,
        time_of_arrival: int,
        body: bytes,
        *,
        headers: list[Header] | None = None,
    ) -> None:
        self.subscription_id = subscription_id
        self.number = number
        self.sender_id = sender_id
        self.time_of_arrival = time_of_arrival
        self.body = body
        self.headers = headers


class SubscriptionName(Structure):
    """Which topic a subscription is for.

    Attributes:
        subscription_id: The subscription.
        topic: The topic's name.
    """

    __slots__ = ("subscription_id", "topic")

    def __init__(self, subscription_id: int, topic: str) -> None:
        self.subscription_id = subscription_id
        self.topic = topic


class TopicFigures(Structure):
    """A topic as it is listed.

    Attributes:
        topic_id: Identifies the topic.
        topic: Its name.
        last_number: The number of the last message put; 0 before the first.
        subscribers: Subscriptions that are owed what is put.
        depth: Messages that some subscription has not confirmed yet.
    """

    __slots__ = ("topic_id", "topic", "last_number", "subscribers", "depth")

    def __init__(self, topic_id: int, topic: str, last_number: int, subscribers: int, depth: int) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.last_number = last_number
        self.subscribers = subscribers
        self.depth = depth


class SubscriptionFigures(Structure):
    """A subscription as it is listed.

    Attributes:
        subscription_id: Identifies the subscription.
        topic: The topic's name.
        position: All up to this number is confirmed.
        last_number: The number of the last message put; the difference is what the subscription is
            behind.
        state: How it stands to its limit.
        max_behind: Its limit in messages. Tag 1; may be left out.
        max_age_ms: Its limit in time, in milliseconds. Tag 2; may be left out.
        drop: Beyond the limit it is dropped. Tag 3; may be left out.
    """

    __slots__ = (
        "subscription_id",
        "topic",
        "position",
        "last_number",
        "state",
        "max_behind",
        "max_age_ms",
        "drop",
    )

    def __init__(
        self,
        subscription_id: int,
        topic: str,
        position: int,
        last_number: int,
        state: SubscriptionState,
        *,
        max_behind: int | None = None,
        max_age_ms: int | None = None,
        drop: bool | None = None,
    ) -> None:
        self.subscription_id = subscription_id
        self.topic = topic
        self.position = position
        self.last_number = last_number
        self.state = state
        self.max_behind = max_behind
        self.max_age_ms = max_age_ms
        self.drop = drop


class DeadLetter(Structure):
    """A message that left its queue without having been processed.

    Attributes:
        message: The message.
        reason: Why: failed (consumers gave it back as failed), late (their time was up) or lost (their
            connections were) for the last of max_attempts attempts, rejected (a consumer could not process
            it, followed by a colon and what it says), expired, or unconfirmed (handed over to a client that
            never confirmed it).
        died_at: Since when, in microseconds since the Unix epoch, UTC, by the database's clock.
        client_id: The client that had it last; 0 for none.
    """

    __slots__ = ("message", "reason", "died_at", "client_id")

    def __init__(self, message: Message, reason: str, died_at: int, client_id: int) -> None:
        self.message = message
        self.reason = reason
        self.died_at = died_at
        self.client_id = client_id


class LeaseRef(Structure):
    """Names one message that a consumer was given.

    Attributes:
        consumer_id: The consumer.
        lease_id: The lease, from the Deliver that brought the message.
        message_id: The message.
    """

    __slots__ = ("consumer_id", "lease_id", "message_id")

    def __init__(self, consumer_id: int, lease_id: int, message_id: int) -> None:
        self.consumer_id = consumer_id
        self.lease_id = lease_id
        self.message_id = message_id


class Delivery(Structure):
    """A message and the lease under which a consumer has it.

    Attributes:
        lease_id: The lease; a message that comes again comes under another one.
        message: The message.
    """

    __slots__ = ("lease_id", "message")

    def __init__(self, lease_id: int, message: Message) -> None:
        self.lease_id = lease_id
        self.message = message


class MessageRecord(Structure):
    """What is known of a message: where it is now, or how it or one of its hand-overs ended.

    Attributes:
        state: Where it is, or how it ended.
        queue_id: Its queue.
        queue_name: The queue's name; empty when the queue is gone.
        sender_id: The client that put it.
        sender_name: That client's name; empty when the client is gone.
        receiver_id: The only client that may read it; 0 for anyone.
        priority: 1 (lowest) to 10 (highest).
        context: Connects a request and its response.
        time_of_arrival: Microseconds since the Unix epoch, UTC, by the database's clock, as all times
            here.
        attempt: How often it has been handed over.
        redelivered: It came back to its queue after a hand-over.
        put_through: The middleware through which it was put; missing when it was put from SQL. Tag 1; may
            be left out.
        put_address: Where clients reached that middleware. Tag 2; may be left out.
        client_id: The client to which it was handed over last. Tag 3; may be left out.
        client_name: That client's name; missing when the client is gone. Tag 4; may be left out.
        session: The session of the read; 0 from SQL, missing for a consumer. Tag 5; may be left out.
        number: The read's number, 0 when it had none; or the consumer's lease. Tag 6; may be left out.
        handed_over_at: When it was handed over; for a read that is not confirmed, or listed by the last
            takeover. Tag 7; may be left out.
        handed_over_through: The middleware through which; missing when it was read from SQL. Tag 8; may
            be left out.
        handed_over_address: Where clients reached that middleware. Tag 9; may be left out.
        ended_at: When that ended, or it became a dead letter. Tag 10; may be left out.
        reason: Why it came back from a consumer, or is dead. Tag 11; may be left out.
        consumer_id: The consumer that has or had it; missing for a read. Tag 12; may be left out.
        due_at: When it can be read, of one that is DELAYED. Tag 13; may be left out.
        deadline: Until when the consumer has it, of one that is LEASED. Tag 14; may be left out.
        body: The content, if the history keeps it, in the last record that has it. Missing when the
            message was for another client alone, neither from nor for the one that asks, and when it does not
            fit the frames that the client accepts. Tag 15; may be left out.
        headers: The headers, if it has any, where it is now and in the last record of how it ended.
            Missing where a body would be. Tag 16; may be left out.
    """

    __slots__ = (
        "state",
        "queue_id",
        "queue_name",
        "sender_id",
        "sender_name",
        "receiver_id",
        "priority",
        "context",
        "time_of_arrival",
        "attempt",
        "redelivered",
        "put_through",
        "put_address",
        "client_id",
        "client_name",
        "session",
        "number",
        "handed_over_at",
        "handed_over_through",
        "handed_over_address",
        "ended_at",
        "reason",
        "consumer_id",
        "due_at",
        "deadline",
        "body",
        "headers",
    )

    def __init__(
        self,
        state: MessageState,
        queue_id: int,
        queue_name: str,
        sender_id: int,
        sender_name: str,
        receiver_id: int,
        priority: int,
        context: int | None,
        time_of_arrival: int,
        attempt: int,
        redelivered: bool,
        *,
        put_through: int | None = None,
        put_address: str | None = None,
        client_id: int | None = None,
        client_name: str | None = None,
        session: int | None = None,
        number: int | None = None,
        handed_over_at: int | None = None,
        handed_over_through: int | None = None,
        handed_over_address: str | None = None,
        ended_at: int | None = None,
        reason: str | None = None,
        consumer_id: int | None = None,
        due_at: int | None = None,
        deadline: int | None = None,
        body: bytes | None = None,
        headers: list[Header] | None = None,
    ) -> None:
        self.state = state
        self.queue_id = queue_id
        self.queue_name = queue_name
        self.sender_id = sender_id
        self.sender_name = sender_name
        self.receiver_id = receiver_id
        self.priority = priority
        self.context = context
        self.time_of_arrival = time_of_arrival
        self.attempt = attempt
        self.redelivered = redelivered
        self.put_through = put_through
        self.put_address = put_address
        self.client_id = client_id
        self.client_name = client_name
        self.session = session
        self.number = number
        self.handed_over_at = handed_over_at
        self.handed_over_through = handed_over_through
        self.handed_over_address = handed_over_address
        self.ended_at = ended_at
        self.reason = reason
        self.consumer_id = consumer_id
        self.due_at = due_at
        self.deadline = deadline
        self.body = body
        self.headers = headers


class QueueFigures(Structure):
    """A queue as it is listed.

    Attributes:
        queue_id: Identifies the queue.
        name: Its name.
        depth: Messages that wait.
    """

    __slots__ = ("queue_id", "name", "depth")

    def __init__(self, queue_id: int, name: str, depth: int) -> None:
        self.queue_id = queue_id
        self.name = name
        self.depth = depth


class ClientFigures(Structure):
    """A client as it is listed.

    Attributes:
        client_id: Identifies the client.
        name: Its name.
        mode: What it may do.
        temporary: It lasts as long as it is connected.
        session_at: When it opened its session, in microseconds since the Unix epoch, UTC, by the
            database's clock.
        unconfirmed: Messages that it was handed over and has not confirmed; 1,000 for more.
        subscriptions: Topics to which it subscribes; 1,000 for more.
        process: The process that opened the session, as it calls itself. Tag 1; may be left out.
        library: The name and version of its library. Tag 2; may be left out.
        address: The address of its connection. Tag 3; may be left out.
    """

    __slots__ = (
        "client_id",
        "name",
        "mode",
        "temporary",
        "session_at",
        "unconfirmed",
        "subscriptions",
        "process",
        "library",
        "address",
    )

    def __init__(
        self,
        client_id: int,
        name: str,
        mode: ClientMode,
        temporary: bool,
        session_at: int,
        unconfirmed: int,
        subscriptions: int,
        *,
        process: str | None = None,
        library: str | None = None,
        address: str | None = None,
    ) -> None:
        self.client_id = client_id
        self.name = name
        self.mode = mode
        self.temporary = temporary
        self.session_at = session_at
        self.unconfirmed = unconfirmed
        self.subscriptions = subscriptions
        self.process = process
        self.library = library
        self.address = address


class ConsumerFigures(Structure):
    """A consumer as it is listed.

    Attributes:
        consumer_id: Identifies the consumer.
        queue_id: Its queue.
        queue: That queue's name.
        client_id: Its client.
        client: That client's name; empty when the client is gone.
        middleware_id: The middleware to which it is connected.
        joined_at: Since when, in microseconds since the Unix epoch, UTC, by the database's clock.
        leases: Messages that it has and has not acknowledged; 1,000 for more.
        paused: It has joined without credit, or has set it to 0.
        slow: It counts as slow now: others are served first.
    """

    __slots__ = (
        "consumer_id",
        "queue_id",
        "queue",
        "client_id",
        "client",
        "middleware_id",
        "joined_at",
        "leases",
        "paused",
        "slow",
    )

    def __init__(
        self,
        consumer_id: int,
        queue_id: int,
        queue: str,
        client_id: int,
        client: str,
        middleware_id: int,
        joined_at: int,
        leases: int,
        paused: bool,
        slow: bool,
    ) -> None:
        self.consumer_id = consumer_id
        self.queue_id = queue_id
        self.queue = queue
        self.client_id = client_id
        self.client = client
        self.middleware_id = middleware_id
        self.joined_at = joined_at
        self.leases = leases
        self.paused = paused
        self.slow = slow


class MiddlewareFigures(Structure):
    """A middleware as it is listed.

    Attributes:
        middleware_id: Identifies the middleware.
        address: Where clients reach it.
        version: Its release.
        started_at: Since when it runs, in microseconds since the Unix epoch, UTC, by the database's
            clock.
        heartbeat_at: Its last sign of life, likewise; one that died is listed until another removes it.
        consumers: Consumers that are connected to it.
    """

    __slots__ = ("middleware_id", "address", "version", "started_at", "heartbeat_at", "consumers")

    def __init__(
        self,
        middleware_id: int,
        address: str,
        version: str,
        started_at: int,
        heartbeat_at: int,
        consumers: int,
    ) -> None:
        self.middleware_id = middleware_id
        self.address = address
        self.version = version
        self.started_at = started_at
        self.heartbeat_at = heartbeat_at
        self.consumers = consumers


def _read_queues(payload: bytes, at: int, count: int) -> tuple[list[Queue], int]:
    if 11 * count > len(payload) - at:
        raise ValueError("count")
    queues = []
    for _ in range(count):
        queue_id, name_size = _UNPACK_I64_U16(payload, at)
        name = str(payload[at + 10 : at + 10 + name_size], "utf-8")
        at += 10 + name_size
        tags = payload[at]
        at += 1
        if tags:
            at = skip_tags(payload, at, tags)
        queues.append(Queue(queue_id, name))
    return queues, at


def _write_queues(queues: list[Queue]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 11 * len(queues)
    for queue in queues:
        name = queue.name.encode()
        name_size = len(name)
        size += name_size
        parts += (_PACK_I64_U16(queue.queue_id, name_size), name, b"\x00")
    return parts, size


def _read_headers(payload: bytes, at: int, count: int) -> tuple[list[Header], int]:
    if 4 * count > len(payload) - at:
        raise ValueError("count")
    headers = []
    for _ in range(count):
        (name_size,) = _UNPACK_U16(payload, at)
        name = str(payload[at + 2 : at + 2 + name_size], "utf-8")
        at += 2 + name_size
        (value__size,) = _UNPACK_U16(payload, at)
        value_ = str(payload[at + 2 : at + 2 + value__size], "utf-8")
        at += 2 + value__size
        headers.append(Header(name, value_))
    return headers, at


def _write_headers(headers: list[Header]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 4 * len(headers)
    for header in headers:
        name = header.name.encode()
        name_size = len(name)
        value_ = header.value.encode()
        value__size = len(value_)
        size += name_size + value__size
        parts += (_PACK_U16(name_size), name, _PACK_U16(value__size), value_)
    return parts, size


def _read_queued_messages(payload: bytes, at: int, count: int) -> tuple[list[QueuedMessage], int]:
    if 23 * count > len(payload) - at:
        raise ValueError("count")
    queued_messages = []
    for _ in range(count):
        queue_id, priority, receiver_id, body_size = _UNPACK_I64_U8_I64_U32(payload, at)
        body = payload[at + 21 : at + 21 + body_size]
        at += 21 + body_size
        context_flag = payload[at]
        context: int | None = None
        if context_flag:
            if context_flag != 1:
                raise ValueError("flag")
            (context,) = _UNPACK_I64(payload, at + 1)
            at += 8
        message_tags = payload[at + 1]
        at += 2
        dedup_key: str | None = None
        partition_key: str | None = None
        delay_ms: int | None = None
        expires_ms: int | None = None
        headers: list[Header] | None = None
        if message_tags:
            found, at = read_tags(payload, at, message_tags, _NEW_MESSAGE_TAGS)
            content = found.get(1)
            if content is not None:
                (dedup_key_dedup_key_size,) = _UNPACK_U16(content)
                dedup_key_dedup_key = str(content[2 : 2 + dedup_key_dedup_key_size], "utf-8")
                place = 2 + dedup_key_dedup_key_size
                if len(content) != place:
                    raise ValueError("size")
                dedup_key = dedup_key_dedup_key
            content = found.get(2)
            if content is not None:
                (partition_key_partition_key_size,) = _UNPACK_U16(content)
                partition_key_partition_key = str(content[2 : 2 + partition_key_partition_key_size], "utf-8")
                place = 2 + partition_key_partition_key_size
                if len(content) != place:
                    raise ValueError("size")
                partition_key = partition_key_partition_key
            content = found.get(3)
            if content is not None:
                (delay_ms_delay_ms,) = _UNPACK_I64(content)
                if len(content) != 8:
                    raise ValueError("size")
                delay_ms = delay_ms_delay_ms
            content = found.get(4)
            if content is not None:
                (expires_ms_expires_ms,) = _UNPACK_I64(content)
                if len(content) != 8:
                    raise ValueError("size")
                expires_ms = expires_ms_expires_ms
            content = found.get(5)
            if content is not None:
                (headers_headers_count,) = _UNPACK_U32(content)
                headers_headers, place = _read_headers(content, 4, headers_headers_count)
                if len(content) != place:
                    raise ValueError("size")
                headers = headers_headers
        queued_messages.append(
            QueuedMessage(
                queue_id,
                NewMessage(
                    priority,
                    receiver_id,
                    body,
                    context,
                    dedup_key=dedup_key,
                    partition_key=partition_key,
                    delay_ms=delay_ms,
                    expires_ms=expires_ms,
                    headers=headers,
                ),
            )
        )
    return queued_messages, at


def _write_queued_messages(queued_messages: list[QueuedMessage]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 21 * len(queued_messages)
    for queued_message in queued_messages:
        message = queued_message.message
        body = message.body
        body_size = len(body)
        context = message.context
        tagged: list[bytes] = []
        dedup_key = message.dedup_key
        if dedup_key is not None:
            dedup_key_dedup_key = dedup_key.encode()
            dedup_key_dedup_key_size = len(dedup_key_dedup_key)
            tagged.append(
                write_tagged(
                    1,
                    b"".join(
                        (
                            _PACK_U16(dedup_key_dedup_key_size),
                            dedup_key_dedup_key,
                        )
                    ),
                )
            )
        partition_key = message.partition_key
        if partition_key is not None:
            partition_key_partition_key = partition_key.encode()
            partition_key_partition_key_size = len(partition_key_partition_key)
            tagged.append(
                write_tagged(
                    2,
                    b"".join(
                        (
                            _PACK_U16(partition_key_partition_key_size),
                            partition_key_partition_key,
                        )
                    ),
                )
            )
        delay_ms = message.delay_ms
        if delay_ms is not None:
            tagged.append(write_tagged(3, _PACK_I64(delay_ms)))
        expires_ms = message.expires_ms
        if expires_ms is not None:
            tagged.append(write_tagged(4, _PACK_I64(expires_ms)))
        headers = message.headers
        if headers is not None:
            headers_count = len(headers)
            headers_parts, _ = _write_headers(headers)
            tagged.append(
                write_tagged(
                    5,
                    b"".join(
                        (
                            _PACK_U32(headers_count),
                            *headers_parts,
                        )
                    ),
                )
            )
        tagged_part = b"".join(tagged)
        context_part = (
            _PACK_U8X2(0, len(tagged)) if context is None else _PACK_U8_I64_U8(1, context, len(tagged))
        )
        size += body_size + len(context_part) + len(tagged_part)
        parts += (
            _PACK_I64_U8_I64_U32(queued_message.queue_id, message.priority, message.receiver_id, body_size),
            body,
            context_part,
            tagged_part,
        )
    return parts, size


def _read_messages(payload: bytes, at: int, count: int) -> tuple[list[Message], int]:
    if 50 * count > len(payload) - at:
        raise ValueError("count")
    messages = []
    for _ in range(count):
        (
            message_id,
            queue_id,
            sender_id,
            receiver_id,
            priority,
            time_of_arrival,
            attempt,
            redelivered,
            body_size,
        ) = _UNPACK_I64X4_U8_I64_U16_U8_U32(payload, at)
        body = payload[at + 48 : at + 48 + body_size]
        at += 48 + body_size
        context_flag = payload[at]
        context: int | None = None
        if context_flag:
            if context_flag != 1:
                raise ValueError("flag")
            (context,) = _UNPACK_I64(payload, at + 1)
            at += 8
        tags = payload[at + 1]
        at += 2
        partition_key: str | None = None
        origin: Origin | None = None
        expires_ms: int | None = None
        headers: list[Header] | None = None
        if tags:
            found, at = read_tags(payload, at, tags, _MESSAGE_TAGS)
            content = found.get(1)
            if content is not None:
                (partition_key_partition_key_size,) = _UNPACK_U16(content)
                partition_key_partition_key = str(content[2 : 2 + partition_key_partition_key_size], "utf-8")
                place = 2 + partition_key_partition_key_size
                if len(content) != place:
                    raise ValueError("size")
                partition_key = partition_key_partition_key
            content = found.get(2)
            if content is not None:
                origin_origin_queue_id, origin_origin_message_id, reason_size = _UNPACK_I64X2_U16(content)
                reason = str(content[18 : 18 + reason_size], "utf-8")
                place = 18 + reason_size
                origin_origin_attempt, died_at, origin_origin_tags = _UNPACK_U16_I64_U8(content, place)
                place += 11
                if origin_origin_tags:
                    place = skip_tags(content, place, origin_origin_tags)
                if len(content) != place:
                    raise ValueError("size")
                origin = Origin(
                    origin_origin_queue_id, origin_origin_message_id, reason, origin_origin_attempt, died_at
                )
            content = found.get(3)
            if content is not None:
                (expires_ms_expires_ms,) = _UNPACK_I64(content)
                if len(content) != 8:
                    raise ValueError("size")
                expires_ms = expires_ms_expires_ms
            content = found.get(4)
            if content is not None:
                (headers_headers_count,) = _UNPACK_U32(content)
                headers_headers, place = _read_headers(content, 4, headers_headers_count)
                if len(content) != place:
                    raise ValueError("size")
                headers = headers_headers
        messages.append(
            Message(
                message_id,
                queue_id,
                sender_id,
                receiver_id,
                priority,
                time_of_arrival,
                attempt,
                BOOLS[redelivered],
                body,
                context,
                partition_key=partition_key,
                origin=origin,
                expires_ms=expires_ms,
                headers=headers,
            )
        )
    return messages, at


def _write_messages(messages: list[Message]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 48 * len(messages)
    for message in messages:
        body = message.body
        body_size = len(body)
        context = message.context
        tagged: list[bytes] = []
        partition_key = message.partition_key
        if partition_key is not None:
            partition_key_partition_key = partition_key.encode()
            partition_key_partition_key_size = len(partition_key_partition_key)
            tagged.append(
                write_tagged(
                    1,
                    b"".join(
                        (
                            _PACK_U16(partition_key_partition_key_size),
                            partition_key_partition_key,
                        )
                    ),
                )
            )
        origin = message.origin
        if origin is not None:
            reason = origin.reason.encode()
            reason_size = len(reason)
            tagged.append(
                write_tagged(
                    2,
                    b"".join(
                        (
                            _PACK_I64X2_U16(origin.queue_id, origin.message_id, reason_size),
                            reason,
                            _PACK_U16_I64_U8(origin.attempt, origin.died_at, 0),
                        )
                    ),
                )
            )
        expires_ms = message.expires_ms
        if expires_ms is not None:
            tagged.append(write_tagged(3, _PACK_I64(expires_ms)))
        headers = message.headers
        if headers is not None:
            headers_count = len(headers)
            headers_parts, _ = _write_headers(headers)
            tagged.append(
                write_tagged(
                    4,
                    b"".join(
                        (
                            _PACK_U32(headers_count),
                            *headers_parts,
                        )
                    ),
                )
            )
        tagged_part = b"".join(tagged)
        context_part = (
            _PACK_U8X2(0, len(tagged)) if context is None else _PACK_U8_I64_U8(1, context, len(tagged))
        )
        size += body_size + len(context_part) + len(tagged_part)
        parts += (
            _PACK_I64X4_U8_I64_U16_U8_U32(
                message.message_id,
                message.queue_id,
                message.sender_id,
                message.receiver_id,
                message.priority,
                message.time_of_arrival,
                message.attempt,
                1 if message.redelivered else 0,
                body_size,
            ),
            body,
            context_part,
            tagged_part,
        )
    return parts, size


def _read_put_results(payload: bytes, at: int, count: int) -> tuple[list[PutResult], int]:
    if 18 * count > len(payload) - at:
        raise ValueError("count")
    put_results = []
    for _ in range(count):
        queue_id, message_id, duplicate, error_flag = _UNPACK_I64X2_U8X2(payload, at)
        error: int | None = None
        if error_flag:
            if error_flag != 1:
                raise ValueError("flag")
            (error,) = _UNPACK_U16(payload, at + 18)
            at += 2
        at += 18
        put_results.append(PutResult(queue_id, message_id, BOOLS[duplicate], error))
    return put_results, at


def _write_put_results(put_results: list[PutResult]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 0 * len(put_results)
    for put_result in put_results:
        error = put_result.error
        error_part = (
            _PACK_I64X2_U8X2(put_result.queue_id, put_result.message_id, 1 if put_result.duplicate else 0, 0)
            if error is None
            else _PACK_I64X2_U8X2_U16(
                put_result.queue_id, put_result.message_id, 1 if put_result.duplicate else 0, 1, error
            )
        )
        size += len(error_part)
        parts.append(error_part)
    return parts, size


def _read_element_results(payload: bytes, at: int, count: int) -> tuple[list[ElementResult], int]:
    if 9 * count > len(payload) - at:
        raise ValueError("count")
    element_results = []
    for _ in range(count):
        related_id, error_flag = _UNPACK_I64_U8(payload, at)
        error: int | None = None
        if error_flag:
            if error_flag != 1:
                raise ValueError("flag")
            (error,) = _UNPACK_U16(payload, at + 9)
            at += 2
        at += 9
        element_results.append(ElementResult(related_id, error))
    return element_results, at


def _write_element_results(element_results: list[ElementResult]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 0 * len(element_results)
    for element_result in element_results:
        error = element_result.error
        error_part = (
            _PACK_I64_U8(element_result.related_id, 0)
            if error is None
            else _PACK_I64_U8_U16(element_result.related_id, 1, error)
        )
        size += len(error_part)
        parts.append(error_part)
    return parts, size


def _read_operation_results(payload: bytes, at: int, count: int) -> tuple[list[OperationResult], int]:
    if 22 * count > len(payload) - at:
        raise ValueError("count")
    operation_results = []
    for _ in range(count):
        session, number, method_id, results_count = _UNPACK_U64X2_U16_U32(payload, at)
        results, at = _read_element_results(payload, at + 22, results_count)
        operation_results.append(OperationResult(session, number, method_id, results))
    return operation_results, at


def _write_operation_results(operation_results: list[OperationResult]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 22 * len(operation_results)
    for operation_result in operation_results:
        results = operation_result.results
        results_count = len(results)
        results_parts, results_size = _write_element_results(results)
        size += results_size
        parts += (
            _PACK_U64X2_U16_U32(
                operation_result.session, operation_result.number, operation_result.method_id, results_count
            ),
            *results_parts,
        )
    return parts, size


def _read_hand_overs(payload: bytes, at: int, count: int) -> tuple[list[HandOver], int]:
    if 66 * count > len(payload) - at:
        raise ValueError("count")
    hand_overs = []
    for _ in range(count):
        (
            session,
            number,
            message_id,
            queue_id,
            sender_id,
            receiver_id,
            priority,
            time_of_arrival,
            attempt,
            redelivered,
            body_size,
        ) = _UNPACK_U64X2_I64X4_U8_I64_U16_U8_U32(payload, at)
        body = payload[at + 64 : at + 64 + body_size]
        at += 64 + body_size
        context_flag = payload[at]
        context: int | None = None
        if context_flag:
            if context_flag != 1:
                raise ValueError("flag")
            (context,) = _UNPACK_I64(payload, at + 1)
            at += 8
        message_tags = payload[at + 1]
        at += 2
        partition_key: str | None = None
        origin: Origin | None = None
        expires_ms: int | None = None
        headers: list[Header] | None = None
        if message_tags:
            found, at = read_tags(payload, at, message_tags, _MESSAGE_TAGS)
            content = found.get(1)
            if content is not None:
                (partition_key_partition_key_size,) = _UNPACK_U16(content)
                partition_key_partition_key = str(content[2 : 2 + partition_key_partition_key_size], "utf-8")
                place = 2 + partition_key_partition_key_size
                if len(content) != place:
                    raise ValueError("size")
                partition_key = partition_key_partition_key
            content = found.get(2)
            if content is not None:
                origin_origin_queue_id, origin_origin_message_id, reason_size = _UNPACK_I64X2_U16(content)
                reason = str(content[18 : 18 + reason_size], "utf-8")
                place = 18 + reason_size
                origin_origin_attempt, died_at, origin_origin_tags = _UNPACK_U16_I64_U8(content, place)
                place += 11
                if origin_origin_tags:
                    place = skip_tags(content, place, origin_origin_tags)
                if len(content) != place:
                    raise ValueError("size")
                origin = Origin(
                    origin_origin_queue_id, origin_origin_message_id, reason, origin_origin_attempt, died_at
                )
            content = found.get(3)
            if content is not None:
                (expires_ms_expires_ms,) = _UNPACK_I64(content)
                if len(content) != 8:
                    raise ValueError("size")
                expires_ms = expires_ms_expires_ms
            content = found.get(4)
            if content is not None:
                (headers_headers_count,) = _UNPACK_U32(content)
                headers_headers, place = _read_headers(content, 4, headers_headers_count)
                if len(content) != place:
                    raise ValueError("size")
                headers = headers_headers
        hand_overs.append(
            HandOver(
                session,
                number,
                Message(
                    message_id,
                    queue_id,
                    sender_id,
                    receiver_id,
                    priority,
                    time_of_arrival,
                    attempt,
                    BOOLS[redelivered],
                    body,
                    context,
                    partition_key=partition_key,
                    origin=origin,
                    expires_ms=expires_ms,
                    headers=headers,
                ),
            )
        )
    return hand_overs, at


def _write_hand_overs(hand_overs: list[HandOver]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 64 * len(hand_overs)
    for hand_over in hand_overs:
        message = hand_over.message
        body = message.body
        body_size = len(body)
        context = message.context
        tagged: list[bytes] = []
        partition_key = message.partition_key
        if partition_key is not None:
            partition_key_partition_key = partition_key.encode()
            partition_key_partition_key_size = len(partition_key_partition_key)
            tagged.append(
                write_tagged(
                    1,
                    b"".join(
                        (
                            _PACK_U16(partition_key_partition_key_size),
                            partition_key_partition_key,
                        )
                    ),
                )
            )
        origin = message.origin
        if origin is not None:
            reason = origin.reason.encode()
            reason_size = len(reason)
            tagged.append(
                write_tagged(
                    2,
                    b"".join(
                        (
                            _PACK_I64X2_U16(origin.queue_id, origin.message_id, reason_size),
                            reason,
                            _PACK_U16_I64_U8(origin.attempt, origin.died_at, 0),
                        )
                    ),
                )
            )
        expires_ms = message.expires_ms
        if expires_ms is not None:
            tagged.append(write_tagged(3, _PACK_I64(expires_ms)))
        headers = message.headers
        if headers is not None:
            headers_count = len(headers)
            headers_parts, _ = _write_headers(headers)
            tagged.append(
                write_tagged(
                    4,
                    b"".join(
                        (
                            _PACK_U32(headers_count),
                            *headers_parts,
                        )
                    ),
                )
            )
        tagged_part = b"".join(tagged)
        context_part = (
            _PACK_U8X2(0, len(tagged)) if context is None else _PACK_U8_I64_U8(1, context, len(tagged))
        )
        size += body_size + len(context_part) + len(tagged_part)
        parts += (
            _PACK_U64X2_I64X4_U8_I64_U16_U8_U32(
                hand_over.session,
                hand_over.number,
                message.message_id,
                message.queue_id,
                message.sender_id,
                message.receiver_id,
                message.priority,
                message.time_of_arrival,
                message.attempt,
                1 if message.redelivered else 0,
                body_size,
            ),
            body,
            context_part,
            tagged_part,
        )
    return parts, size


def _read_operation_refs(payload: bytes, at: int, count: int) -> tuple[list[OperationRef], int]:
    if 16 * count > len(payload) - at:
        raise ValueError("count")
    operation_refs = []
    for _ in range(count):
        session, number = _UNPACK_U64X2(payload, at)
        at += 16
        operation_refs.append(OperationRef(session, number))
    return operation_refs, at


def _write_operation_refs(operation_refs: list[OperationRef]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 16 * len(operation_refs)
    for operation_ref in operation_refs:
        parts.append(_PACK_U64X2(operation_ref.session, operation_ref.number))
    return parts, size


def _read_hand_over_refs(payload: bytes, at: int, count: int) -> tuple[list[HandOverRef], int]:
    if 24 * count > len(payload) - at:
        raise ValueError("count")
    hand_over_refs = []
    for _ in range(count):
        session, number, message_id = _UNPACK_U64X2_I64(payload, at)
        at += 24
        hand_over_refs.append(HandOverRef(session, number, message_id))
    return hand_over_refs, at


def _write_hand_over_refs(hand_over_refs: list[HandOverRef]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 24 * len(hand_over_refs)
    for hand_over_ref in hand_over_refs:
        parts.append(_PACK_U64X2_I64(hand_over_ref.session, hand_over_ref.number, hand_over_ref.message_id))
    return parts, size


def _read_new_topic_messages(payload: bytes, at: int, count: int) -> tuple[list[NewTopicMessage], int]:
    if 5 * count > len(payload) - at:
        raise ValueError("count")
    new_topic_messages = []
    for _ in range(count):
        (body_size,) = _UNPACK_U32(payload, at)
        body = payload[at + 4 : at + 4 + body_size]
        at += 4 + body_size
        tags = payload[at]
        at += 1
        sequence: int | None = None
        headers: list[Header] | None = None
        if tags:
            found, at = read_tags(payload, at, tags, _NEW_TOPIC_MESSAGE_TAGS)
            content = found.get(1)
            if content is not None:
                (sequence_sequence,) = _UNPACK_I64(content)
                if len(content) != 8:
                    raise ValueError("size")
                sequence = sequence_sequence
            content = found.get(2)
            if content is not None:
                (headers_headers_count,) = _UNPACK_U32(content)
                headers_headers, place = _read_headers(content, 4, headers_headers_count)
                if len(content) != place:
                    raise ValueError("size")
                headers = headers_headers
        new_topic_messages.append(NewTopicMessage(body, sequence=sequence, headers=headers))
    return new_topic_messages, at


def _write_new_topic_messages(new_topic_messages: list[NewTopicMessage]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 5 * len(new_topic_messages)
    for new_topic_message in new_topic_messages:
        body = new_topic_message.body
        body_size = len(body)
        tagged: list[bytes] = []
        sequence = new_topic_message.sequence
        if sequence is not None:
            tagged.append(write_tagged(1, _PACK_I64(sequence)))
        headers = new_topic_message.headers
        if headers is not None:
            headers_count = len(headers)
            headers_parts, _ = _write_headers(headers)
            tagged.append(
                write_tagged(
                    2,
                    b"".join(
                        (
                            _PACK_U32(headers_count),
                            *headers_parts,
                        )
                    ),
                )
            )
        tagged_part = b"".join(tagged)
        size += body_size + len(tagged_part)
        parts += (_PACK_U32(body_size), body, _PACK_U8(len(tagged)), tagged_part)
    return parts, size


def _read_topic_put_results(payload: bytes, at: int, count: int) -> tuple[list[TopicPutResult], int]:
    if 10 * count > len(payload) - at:
        raise ValueError("count")
    topic_put_results = []
    for _ in range(count):
        number, duplicate, error_flag = _UNPACK_I64_U8X2(payload, at)
        error: int | None = None
        if error_flag:
            if error_flag != 1:
                raise ValueError("flag")
            (error,) = _UNPACK_U16(payload, at + 10)
            at += 2
        at += 10
        topic_put_results.append(TopicPutResult(number, BOOLS[duplicate], error))
    return topic_put_results, at


def _write_topic_put_results(topic_put_results: list[TopicPutResult]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 0 * len(topic_put_results)
    for topic_put_result in topic_put_results:
        error = topic_put_result.error
        error_part = (
            _PACK_I64_U8X2(topic_put_result.number, 1 if topic_put_result.duplicate else 0, 0)
            if error is None
            else _PACK_I64_U8X2_U16(topic_put_result.number, 1 if topic_put_result.duplicate else 0, 1, error)
        )
        size += len(error_part)
        parts.append(error_part)
    return parts, size


def _read_topic_positions(payload: bytes, at: int, count: int) -> tuple[list[TopicPosition], int]:
    if 24 * count > len(payload) - at:
        raise ValueError("count")
    topic_positions = []
    for _ in range(count):
        subscription_id, confirmed, after = _UNPACK_I64X3(payload, at)
        at += 24
        topic_positions.append(TopicPosition(subscription_id, confirmed, after))
    return topic_positions, at


def _write_topic_positions(topic_positions: list[TopicPosition]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 24 * len(topic_positions)
    for topic_position in topic_positions:
        parts.append(
            _PACK_I64X3(topic_position.subscription_id, topic_position.confirmed, topic_position.after)
        )
    return parts, size


def _read_topic_messages(payload: bytes, at: int, count: int) -> tuple[list[TopicMessage], int]:
    if 37 * count > len(payload) - at:
        raise ValueError("count")
    topic_messages = []
    for _ in range(count):
        subscription_id, number, sender_id, time_of_arrival, body_size = _UNPACK_I64X4_U32(payload, at)
        body = payload[at + 36 : at + 36 + body_size]
        at += 36 + body_size
        tags = payload[at]
        at += 1
        headers: list[Header] | None = None
        if tags:
            found, at = read_tags(payload, at, tags, _TOPIC_MESSAGE_TAGS)
            content = found.get(1)
            if content is not None:
                (headers_headers_count,) = _UNPACK_U32(content)
                headers_headers, place = _read_headers(content, 4, headers_headers_count)
                if len(content) != place:
                    raise ValueError("size")
                headers = headers_headers
        topic_messages.append(
            TopicMessage(subscription_id, number, sender_id, time_of_arrival, body, headers=headers)
        )
    return topic_messages, at


def _write_topic_messages(topic_messages: list[TopicMessage]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 37 * len(topic_messages)
    for topic_message in topic_messages:
        body = topic_message.body
        body_size = len(body)
        tagged: list[bytes] = []
        headers = topic_message.headers
        if headers is not None:
            headers_count = len(headers)
            headers_parts, _ = _write_headers(headers)
            tagged.append(
                write_tagged(
                    1,
                    b"".join(
                        (
                            _PACK_U32(headers_count),
                            *headers_parts,
                        )
                    ),
                )
            )
        tagged_part = b"".join(tagged)
        size += body_size + len(tagged_part)
        parts += (
            _PACK_I64X4_U32(
                topic_message.subscription_id,
                topic_message.number,
                topic_message.sender_id,
                topic_message.time_of_arrival,
                body_size,
            ),
            body,
            _PACK_U8(len(tagged)),
            tagged_part,
        )
    return parts, size


def _read_subscription_names(payload: bytes, at: int, count: int) -> tuple[list[SubscriptionName], int]:
    if 10 * count > len(payload) - at:
        raise ValueError("count")
    subscription_names = []
    for _ in range(count):
        subscription_id, topic_size = _UNPACK_I64_U16(payload, at)
        topic = str(payload[at + 10 : at + 10 + topic_size], "utf-8")
        at += 10 + topic_size
        subscription_names.append(SubscriptionName(subscription_id, topic))
    return subscription_names, at


def _write_subscription_names(subscription_names: list[SubscriptionName]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 10 * len(subscription_names)
    for subscription_name in subscription_names:
        topic = subscription_name.topic.encode()
        topic_size = len(topic)
        size += topic_size
        parts += (_PACK_I64_U16(subscription_name.subscription_id, topic_size), topic)
    return parts, size


def _read_topic_figuress(payload: bytes, at: int, count: int) -> tuple[list[TopicFigures], int]:
    if 35 * count > len(payload) - at:
        raise ValueError("count")
    topic_figuress = []
    for _ in range(count):
        topic_id, topic_size = _UNPACK_I64_U16(payload, at)
        topic = str(payload[at + 10 : at + 10 + topic_size], "utf-8")
        at += 10 + topic_size
        last_number, subscribers, depth, tags = _UNPACK_I64X3_U8(payload, at)
        at += 25
        if tags:
            at = skip_tags(payload, at, tags)
        topic_figuress.append(TopicFigures(topic_id, topic, last_number, subscribers, depth))
    return topic_figuress, at


def _write_topic_figuress(topic_figuress: list[TopicFigures]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 35 * len(topic_figuress)
    for topic_figures in topic_figuress:
        topic = topic_figures.topic.encode()
        topic_size = len(topic)
        size += topic_size
        parts += (
            _PACK_I64_U16(topic_figures.topic_id, topic_size),
            topic,
            _PACK_I64X3_U8(topic_figures.last_number, topic_figures.subscribers, topic_figures.depth, 0),
        )
    return parts, size


def _read_subscription_figuress(payload: bytes, at: int, count: int) -> tuple[list[SubscriptionFigures], int]:
    if 28 * count > len(payload) - at:
        raise ValueError("count")
    subscription_figuress = []
    for _ in range(count):
        subscription_id, topic_size = _UNPACK_I64_U16(payload, at)
        topic = str(payload[at + 10 : at + 10 + topic_size], "utf-8")
        at += 10 + topic_size
        position, last_number, state, tags = _UNPACK_I64X2_U8X2(payload, at)
        at += 18
        max_behind: int | None = None
        max_age_ms: int | None = None
        drop: bool | None = None
        if tags:
            found, at = read_tags(payload, at, tags, _SUBSCRIPTION_FIGURES_TAGS)
            content = found.get(1)
            if content is not None:
                (max_behind_max_behind,) = _UNPACK_I64(content)
                if len(content) != 8:
                    raise ValueError("size")
                max_behind = max_behind_max_behind
            content = found.get(2)
            if content is not None:
                (max_age_ms_max_age_ms,) = _UNPACK_I64(content)
                if len(content) != 8:
                    raise ValueError("size")
                max_age_ms = max_age_ms_max_age_ms
            content = found.get(3)
            if content is not None:
                drop_drop = content[0]
                if len(content) != 1:
                    raise ValueError("size")
                drop = BOOLS[drop_drop]
        subscription_figuress.append(
            SubscriptionFigures(
                subscription_id,
                topic,
                position,
                last_number,
                _SUBSCRIPTION_STATE_BY_VALUE[state],
                max_behind=max_behind,
                max_age_ms=max_age_ms,
                drop=drop,
            )
        )
    return subscription_figuress, at


def _write_subscription_figuress(subscription_figuress: list[SubscriptionFigures]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 28 * len(subscription_figuress)
    for subscription_figures in subscription_figuress:
        topic = subscription_figures.topic.encode()
        topic_size = len(topic)
        tagged: list[bytes] = []
        max_behind = subscription_figures.max_behind
        if max_behind is not None:
            tagged.append(write_tagged(1, _PACK_I64(max_behind)))
        max_age_ms = subscription_figures.max_age_ms
        if max_age_ms is not None:
            tagged.append(write_tagged(2, _PACK_I64(max_age_ms)))
        drop = subscription_figures.drop
        if drop is not None:
            tagged.append(write_tagged(3, _PACK_U8(1 if drop else 0)))
        tagged_part = b"".join(tagged)
        size += topic_size + len(tagged_part)
        parts += (
            _PACK_I64_U16(subscription_figures.subscription_id, topic_size),
            topic,
            _PACK_I64X2_U8X2(
                subscription_figures.position,
                subscription_figures.last_number,
                _SUBSCRIPTION_STATE_BY_VALUE[subscription_figures.state],
                len(tagged),
            ),
            tagged_part,
        )
    return parts, size


def _read_dead_letters(payload: bytes, at: int, count: int) -> tuple[list[DeadLetter], int]:
    if 69 * count > len(payload) - at:
        raise ValueError("count")
    dead_letters = []
    for _ in range(count):
        (
            message_id,
            queue_id,
            sender_id,
            receiver_id,
            priority,
            time_of_arrival,
            attempt,
            redelivered,
            body_size,
        ) = _UNPACK_I64X4_U8_I64_U16_U8_U32(payload, at)
        body = payload[at + 48 : at + 48 + body_size]
        at += 48 + body_size
        context_flag = payload[at]
        context: int | None = None
        if context_flag:
            if context_flag != 1:
                raise ValueError("flag")
            (context,) = _UNPACK_I64(payload, at + 1)
            at += 8
        message_tags = payload[at + 1]
        at += 2
        partition_key: str | None = None
        origin: Origin | None = None
        expires_ms: int | None = None
        headers: list[Header] | None = None
        if message_tags:
            found, at = read_tags(payload, at, message_tags, _MESSAGE_TAGS)
            content = found.get(1)
            if content is not None:
                (partition_key_partition_key_size,) = _UNPACK_U16(content)
                partition_key_partition_key = str(content[2 : 2 + partition_key_partition_key_size], "utf-8")
                place = 2 + partition_key_partition_key_size
                if len(content) != place:
                    raise ValueError("size")
                partition_key = partition_key_partition_key
            content = found.get(2)
            if content is not None:
                origin_origin_queue_id, origin_origin_message_id, reason_size = _UNPACK_I64X2_U16(content)
                reason = str(content[18 : 18 + reason_size], "utf-8")
                place = 18 + reason_size
                origin_origin_attempt, died_at, origin_origin_tags = _UNPACK_U16_I64_U8(content, place)
                place += 11
                if origin_origin_tags:
                    place = skip_tags(content, place, origin_origin_tags)
                if len(content) != place:
                    raise ValueError("size")
                origin = Origin(
                    origin_origin_queue_id, origin_origin_message_id, reason, origin_origin_attempt, died_at
                )
            content = found.get(3)
            if content is not None:
                (expires_ms_expires_ms,) = _UNPACK_I64(content)
                if len(content) != 8:
                    raise ValueError("size")
                expires_ms = expires_ms_expires_ms
            content = found.get(4)
            if content is not None:
                (headers_headers_count,) = _UNPACK_U32(content)
                headers_headers, place = _read_headers(content, 4, headers_headers_count)
                if len(content) != place:
                    raise ValueError("size")
                headers = headers_headers
        (reason__size,) = _UNPACK_U16(payload, at)
        reason_ = str(payload[at + 2 : at + 2 + reason__size], "utf-8")
        at += 2 + reason__size
        died_at_, client_id, tags = _UNPACK_I64X2_U8(payload, at)
        at += 17
        if tags:
            at = skip_tags(payload, at, tags)
        dead_letters.append(
            DeadLetter(
                Message(
                    message_id,
                    queue_id,
                    sender_id,
                    receiver_id,
                    priority,
                    time_of_arrival,
                    attempt,
                    BOOLS[redelivered],
                    body,
                    context,
                    partition_key=partition_key,
                    origin=origin,
                    expires_ms=expires_ms,
                    headers=headers,
                ),
                reason_,
                died_at_,
                client_id,
            )
        )
    return dead_letters, at


def _write_dead_letters(dead_letters: list[DeadLetter]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 67 * len(dead_letters)
    for dead_letter in dead_letters:
        message = dead_letter.message
        body = message.body
        body_size = len(body)
        context = message.context
        tagged: list[bytes] = []
        partition_key = message.partition_key
        if partition_key is not None:
            partition_key_partition_key = partition_key.encode()
            partition_key_partition_key_size = len(partition_key_partition_key)
            tagged.append(
                write_tagged(
                    1,
                    b"".join(
                        (
                            _PACK_U16(partition_key_partition_key_size),
                            partition_key_partition_key,
                        )
                    ),
                )
            )
        origin = message.origin
        if origin is not None:
            reason = origin.reason.encode()
            reason_size = len(reason)
            tagged.append(
                write_tagged(
                    2,
                    b"".join(
                        (
                            _PACK_I64X2_U16(origin.queue_id, origin.message_id, reason_size),
                            reason,
                            _PACK_U16_I64_U8(origin.attempt, origin.died_at, 0),
                        )
                    ),
                )
            )
        expires_ms = message.expires_ms
        if expires_ms is not None:
            tagged.append(write_tagged(3, _PACK_I64(expires_ms)))
        headers = message.headers
        if headers is not None:
            headers_count = len(headers)
            headers_parts, _ = _write_headers(headers)
            tagged.append(
                write_tagged(
                    4,
                    b"".join(
                        (
                            _PACK_U32(headers_count),
                            *headers_parts,
                        )
                    ),
                )
            )
        tagged_part = b"".join(tagged)
        context_part = (
            _PACK_U8X2(0, len(tagged)) if context is None else _PACK_U8_I64_U8(1, context, len(tagged))
        )
        reason_ = dead_letter.reason.encode()
        reason__size = len(reason_)
        size += body_size + len(context_part) + len(tagged_part) + reason__size
        parts += (
            _PACK_I64X4_U8_I64_U16_U8_U32(
                message.message_id,
                message.queue_id,
                message.sender_id,
                message.receiver_id,
                message.priority,
                message.time_of_arrival,
                message.attempt,
                1 if message.redelivered else 0,
                body_size,
            ),
            body,
            context_part,
            tagged_part,
            _PACK_U16(reason__size),
            reason_,
            _PACK_I64X2_U8(dead_letter.died_at, dead_letter.client_id, 0),
        )
    return parts, size


def _read_lease_refs(payload: bytes, at: int, count: int) -> tuple[list[LeaseRef], int]:
    if 24 * count > len(payload) - at:
        raise ValueError("count")
    lease_refs = []
    for _ in range(count):
        consumer_id, lease_id, message_id = _UNPACK_I64X3(payload, at)
        at += 24
        lease_refs.append(LeaseRef(consumer_id, lease_id, message_id))
    return lease_refs, at


def _write_lease_refs(lease_refs: list[LeaseRef]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 24 * len(lease_refs)
    for lease_ref in lease_refs:
        parts.append(_PACK_I64X3(lease_ref.consumer_id, lease_ref.lease_id, lease_ref.message_id))
    return parts, size


def _read_deliverys(payload: bytes, at: int, count: int) -> tuple[list[Delivery], int]:
    if 58 * count > len(payload) - at:
        raise ValueError("count")
    deliverys = []
    for _ in range(count):
        (
            lease_id,
            message_id,
            queue_id,
            sender_id,
            receiver_id,
            priority,
            time_of_arrival,
            attempt,
            redelivered,
            body_size,
        ) = _UNPACK_I64X5_U8_I64_U16_U8_U32(payload, at)
        body = payload[at + 56 : at + 56 + body_size]
        at += 56 + body_size
        context_flag = payload[at]
        context: int | None = None
        if context_flag:
            if context_flag != 1:
                raise ValueError("flag")
            (context,) = _UNPACK_I64(payload, at + 1)
            at += 8
        message_tags = payload[at + 1]
        at += 2
        partition_key: str | None = None
        origin: Origin | None = None
        expires_ms: int | None = None
        headers: list[Header] | None = None
        if message_tags:
            found, at = read_tags(payload, at, message_tags, _MESSAGE_TAGS)
            content = found.get(1)
            if content is not None:
                (partition_key_partition_key_size,) = _UNPACK_U16(content)
                partition_key_partition_key = str(content[2 : 2 + partition_key_partition_key_size], "utf-8")
                place = 2 + partition_key_partition_key_size
                if len(content) != place:
                    raise ValueError("size")
                partition_key = partition_key_partition_key
            content = found.get(2)
            if content is not None:
                origin_origin_queue_id, origin_origin_message_id, reason_size = _UNPACK_I64X2_U16(content)
                reason = str(content[18 : 18 + reason_size], "utf-8")
                place = 18 + reason_size
                origin_origin_attempt, died_at, origin_origin_tags = _UNPACK_U16_I64_U8(content, place)
                place += 11
                if origin_origin_tags:
                    place = skip_tags(content, place, origin_origin_tags)
                if len(content) != place:
                    raise ValueError("size")
                origin = Origin(
                    origin_origin_queue_id, origin_origin_message_id, reason, origin_origin_attempt, died_at
                )
            content = found.get(3)
            if content is not None:
                (expires_ms_expires_ms,) = _UNPACK_I64(content)
                if len(content) != 8:
                    raise ValueError("size")
                expires_ms = expires_ms_expires_ms
            content = found.get(4)
            if content is not None:
                (headers_headers_count,) = _UNPACK_U32(content)
                headers_headers, place = _read_headers(content, 4, headers_headers_count)
                if len(content) != place:
                    raise ValueError("size")
                headers = headers_headers
        deliverys.append(
            Delivery(
                lease_id,
                Message(
                    message_id,
                    queue_id,
                    sender_id,
                    receiver_id,
                    priority,
                    time_of_arrival,
                    attempt,
                    BOOLS[redelivered],
                    body,
                    context,
                    partition_key=partition_key,
                    origin=origin,
                    expires_ms=expires_ms,
                    headers=headers,
                ),
            )
        )
    return deliverys, at


def _write_deliverys(deliverys: list[Delivery]) -> tuple[list[bytes], int]:
    parts: list[bytes] = []
    size = 56 * len(deliverys)
    for delivery in deliverys:
        message = delivery.message
        body = message.body
        body_size = len(body)
        context = message.context
        tagged: list[bytes] = []
        partition_key = message.partition_key
        if partition_key is not None:
            partition_key_partition_key = partition_key.encode()
            partition_key_partition_key_size = len(partition_key_partition_key)
            tagged.append(
                write_tagged(
                    1,
                    b"".join(
                        (
                            _PACK_U16(partition_key_partition_key_size),
                            partition_key_partition_key,
                        )
                    ),
                )
            )
        origin = message.origin
        if origin is not None:
            reason = origin.reason.encode()
            reason_size = len(reason)
            tagged.append(
                write_tagged(
                    2,
                    b"".join(
                        (
                            _PACK_I64X2_U16(origin.queue_id, origin.message_id, reason_size),
                            reason,
                            _PACK_U16_I64_U8(origin.attempt, origin.died_at, 0),
                        )
                    ),
                )
            )
        expires_ms = message.expires_ms
        if expires_ms is not None:
            tagged.append(write_tagged(3, _PACK_I64(expires_ms)))
        headers = message.headers
        if headers is not None:
            headers_count = len(headers)
            headers_parts, _ = _write_headers(headers)
            tagged.append(
                write_tagged(
                    4,
                    b"".join(
                        (
                            _PACK_U32(headers_count),
                            *headers_parts,
                        )
                    ),
                )
            )
        tagged_part = b"".join(tagged)
        context_part = (
            _PACK_U8X2(0, len(tagged)) if context is None else _PACK_U8_I64_U8(1, context, len(tagged))
        )
        size += body_size + len(context_part) + len(tagged_part)
        parts += (
            _PACK_I64X5_U8_I64_U16_U8_U32(
                delivery.lease_id,
                message.message_id,
                message.queue_id,
                message.sender_id,
                message.receiver_id,
                message.priority,
                message.time_of_arrival,
                message.attempt,
                1 if message.redelivered else 0,
                body_size,
            ),
            body,
            context_part,
            tagged_part,
        )
    return parts, size


class RarePacket(Packet):
    """A packet that is encoded and decoded by its layout, which takes longer."""

    __slots__ = ()

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        return LAYOUTS.encode(PACKETS[self.METHOD_ID].__name__, self.METHOD_ID, self, packet_id)

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        packet: Self = LAYOUTS.decode(PACKETS[cls.METHOD_ID].__name__, payload)
        return packet


class Ping(Packet):
    """Asks for a sign of life. Answered at once, without waiting for requests before it."""

    METHOD_ID: ClassVar[int] = 0x01

    __slots__ = ()

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            return _PACK_U32_U16_U32_U8(7, 0x01, packet_id, 0)
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Ping", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            tags = payload[0]
            if tags or len(payload) != 1:
                check_end(payload, 1, tags)
            return cls()
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Ping", payload) from None


class Pong(Packet):
    """The answer to a Ping."""

    METHOD_ID: ClassVar[int] = 0x02

    __slots__ = ()

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            return _PACK_U32_U16_U32_U8(7, 0x02, packet_id, 0)
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Pong", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            tags = payload[0]
            if tags or len(payload) != 1:
                check_end(payload, 1, tags)
            return cls()
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Pong", payload) from None


class Success(Packet):
    """The request was done; there is nothing else to say."""

    METHOD_ID: ClassVar[int] = 0x03

    __slots__ = ()

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            return _PACK_U32_U16_U32_U8(7, 0x03, packet_id, 0)
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Success", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            tags = payload[0]
            if tags or len(payload) != 1:
                check_end(payload, 1, tags)
            return cls()
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Success", payload) from None


class Error(Packet):
    """The request was not, or may not have been, done. With packet id 0: it concerns the connection.

    Attributes:
        code: Which error; an unknown code is treated by its class.
        error_class: What holds now.
        details: For people; not to be parsed.
        related_id: The queue, message or client that it is about.
        retry_after_ms: How long to wait before trying again, in milliseconds.
    """

    METHOD_ID: ClassVar[int] = 0x05

    __slots__ = ("code", "error_class", "details", "related_id", "retry_after_ms")

    def __init__(
        self,
        code: int,
        error_class: ErrorClass,
        details: str,
        related_id: int | None,
        retry_after_ms: int | None,
    ) -> None:
        self.code = code
        self.error_class = error_class
        self.details = details
        self.related_id = related_id
        self.retry_after_ms = retry_after_ms

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            details = self.details.encode()
            details_size = len(details)
            related_id = self.related_id
            retry_after_ms = self.retry_after_ms
            related_id_part = b"\x00" if related_id is None else _PACK_U8_I64(1, related_id)
            retry_after_ms_part = (
                b"\x00\x00" if retry_after_ms is None else _PACK_U8_U32_U8(1, retry_after_ms, 0)
            )
            return b"".join(
                (
                    _PACK_U32_U16_U32_U16_U8_U16(
                        11 + details_size + len(related_id_part) + len(retry_after_ms_part),
                        0x05,
                        packet_id,
                        self.code,
                        _ERROR_CLASS_BY_VALUE[self.error_class],
                        details_size,
                    ),
                    details,
                    related_id_part,
                    retry_after_ms_part,
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Error", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            code, error_class, details_size = _UNPACK_U16_U8_U16(payload)
            details = str(payload[5 : 5 + details_size], "utf-8")
            at = 5 + details_size
            related_id_flag = payload[at]
            related_id: int | None = None
            if related_id_flag:
                if related_id_flag != 1:
                    raise ValueError("flag")
                (related_id,) = _UNPACK_I64(payload, at + 1)
                at += 8
            retry_after_ms_flag = payload[at + 1]
            retry_after_ms: int | None = None
            if retry_after_ms_flag:
                if retry_after_ms_flag != 1:
                    raise ValueError("flag")
                (retry_after_ms,) = _UNPACK_U32(payload, at + 2)
                at += 4
            tags = payload[at + 2]
            if tags or len(payload) != at + 3:
                check_end(payload, at + 3, tags)
            return cls(code, _ERROR_CLASS_BY_VALUE[error_class], details, related_id, retry_after_ms)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Error", payload) from None


class Hello(RarePacket):
    """Opens the conversation. Where no login is asked for (`mechanisms` of the answer is empty), it leads
    to AWAITING_IDENTITY.

    Attributes:
        magic: 0x544C5354, that is TLST.
        major: The protocol's major version that the client speaks.
        minor: The highest minor version that the client knows.
        library: Name of the client library.
        library_version: Version of the client library.
        max_frame: The longest frame that the client accepts, in bytes after the length field.
        capabilities: Optional abilities of the client.
        line_ends: 0x0D0A0D0A. A server of a protocol of lines, such as HTTP or Redis, takes it for the
            end of a request and answers at once, so that the client can say what it has reached. A middleware
            does not look at it. Tag 1; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x07

    __slots__ = (
        "magic",
        "major",
        "minor",
        "library",
        "library_version",
        "max_frame",
        "capabilities",
        "line_ends",
    )

    def __init__(
        self,
        magic: int,
        major: int,
        minor: int,
        library: str,
        library_version: str,
        max_frame: int,
        capabilities: list[str],
        *,
        line_ends: int | None = None,
    ) -> None:
        self.magic = magic
        self.major = major
        self.minor = minor
        self.library = library
        self.library_version = library_version
        self.max_frame = max_frame
        self.capabilities = capabilities
        self.line_ends = line_ends


class HelloResponse(RarePacket):
    """Agrees on version and limits.

    Attributes:
        major: The major version in use.
        minor: The minor version in use: the lower of both sides'.
        middleware_id: Identifies the middleware process.
        server_version: Version of the middleware.
        max_frame: The longest frame in either direction once the client is identified, in bytes after the
            length field.
        idle_limit_ms: A connection that sends nothing for so long is closed; 0 for never. In
            milliseconds.
        max_unconfirmed: How many numbered requests may be unconfirmed at a time.
        mechanisms: The mechanisms by which this connection may log in, the strongest first; empty when no
            login is asked for, see [Logging in](#logging-in).
        addresses: host:port of the other live middlewares.
        capabilities: Optional abilities of the middleware.
        max_body: The largest body of a message, in bytes. Tag 1; may be left out.
        max_put_elements: How many messages, or queues, one put may have. Tag 2; may be left out.
        max_references: How many items any other list of a request may have. Tag 3; may be left out.
        incarnation: Identifies the database, before the client is identified: by it and a client's name,
            processes on one machine can tell that they would be one client. Tag 4; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x08

    __slots__ = (
        "major",
        "minor",
        "middleware_id",
        "server_version",
        "max_frame",
        "idle_limit_ms",
        "max_unconfirmed",
        "mechanisms",
        "addresses",
        "capabilities",
        "max_body",
        "max_put_elements",
        "max_references",
        "incarnation",
    )

    def __init__(
        self,
        major: int,
        minor: int,
        middleware_id: int,
        server_version: str,
        max_frame: int,
        idle_limit_ms: int,
        max_unconfirmed: int,
        mechanisms: list[str],
        addresses: list[str],
        capabilities: list[str],
        *,
        max_body: int | None = None,
        max_put_elements: int | None = None,
        max_references: int | None = None,
        incarnation: str | None = None,
    ) -> None:
        self.major = major
        self.minor = minor
        self.middleware_id = middleware_id
        self.server_version = server_version
        self.max_frame = max_frame
        self.idle_limit_ms = idle_limit_ms
        self.max_unconfirmed = max_unconfirmed
        self.mechanisms = mechanisms
        self.addresses = addresses
        self.capabilities = capabilities
        self.max_body = max_body
        self.max_put_elements = max_put_elements
        self.max_references = max_references
        self.incarnation = incarnation


class Authenticate(RarePacket):
    """A step of the login, see [Logging in](#logging-in). All steps of a login name the same mechanism;
    each waits for the answer to the one before.

    Attributes:
        mechanism: One of `mechanisms` of HelloResponse.
        data: What the mechanism says.
    """

    METHOD_ID: ClassVar[int] = 0x09

    __slots__ = ("mechanism", "data")

    def __init__(self, mechanism: str, data: bytes) -> None:
        self.mechanism = mechanism
        self.data = data


class AuthenticateResponse(RarePacket):
    """The answer to a step of the login.

    Attributes:
        data: What the mechanism says.
        done: The login is complete. False: another step follows.
    """

    METHOD_ID: ClassVar[int] = 0x0A

    __slots__ = ("data", "done")

    def __init__(self, data: bytes, done: bool) -> None:
        self.data = data
        self.done = done


class Alive(Packet):
    """A sign of life, twice a second while the server reads nothing from the connection because enough of
    its requests wait: a Ping would not be read either."""

    METHOD_ID: ClassVar[int] = 0x0E

    __slots__ = ()

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            return _PACK_U32_U16_U32_U8(7, 0x0E, packet_id, 0)
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Alive", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            tags = payload[0]
            if tags or len(payload) != 1:
                check_end(payload, 1, tags)
            return cls()
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Alive", payload) from None


class GoAway(RarePacket):
    """The middleware is about to stop: finish what is under way, then move to another address.

    Attributes:
        reason: For people.
        addresses: host:port of other live middlewares; may be empty.
    """

    METHOD_ID: ClassVar[int] = 0x0C

    __slots__ = ("reason", "addresses")

    def __init__(self, reason: str, addresses: list[str]) -> None:
        self.reason = reason
        self.addresses = addresses


class Confirm(Packet):
    """Says which answers the application has taken, when no other request can carry it. Confirming twice
    is harmless.

    Attributes:
        confirmed: Numbers of this session.
        earlier: Requests of earlier sessions, all their messages included.
        hand_overs: Single messages of reads of any session.
    """

    METHOD_ID: ClassVar[int] = 0x0D

    __slots__ = ("confirmed", "earlier", "hand_overs")

    def __init__(
        self, confirmed: list[int], earlier: list[OperationRef], hand_overs: list[HandOverRef]
    ) -> None:
        self.confirmed = confirmed
        self.earlier = earlier
        self.hand_overs = hand_overs

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            confirmed = self.confirmed
            confirmed_count = len(confirmed)
            earlier = self.earlier
            earlier_count = len(earlier)
            earlier_parts, earlier_size = _write_operation_refs(earlier)
            hand_overs = self.hand_overs
            hand_overs_count = len(hand_overs)
            hand_overs_parts, hand_overs_size = _write_hand_over_refs(hand_overs)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(
                        19 + 8 * confirmed_count + earlier_size + hand_overs_size,
                        0x0D,
                        packet_id,
                        confirmed_count,
                    ),
                    _PACK_U64S[confirmed_count](*confirmed),
                    _PACK_U32(earlier_count),
                    *earlier_parts,
                    _PACK_U32(hand_overs_count),
                    *hand_overs_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Confirm", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (confirmed_count,) = _UNPACK_U32(payload)
            confirmed = list(_UNPACK_U64S[confirmed_count](payload, 4))
            at = 4 + 8 * confirmed_count
            (earlier_count,) = _UNPACK_U32(payload, at)
            earlier, at = _read_operation_refs(payload, at + 4, earlier_count)
            (hand_overs_count,) = _UNPACK_U32(payload, at)
            hand_overs, at = _read_hand_over_refs(payload, at + 4, hand_overs_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(confirmed, earlier, hand_overs)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Confirm", payload) from None


class CancelRequest(RarePacket):
    """Ends the waiting of a read. The read itself is always answered: empty when it was cancelled, else as
    it turned out. Handled at once, without waiting for requests before it.

    Attributes:
        packet_id: The packet id of the read.
    """

    METHOD_ID: ClassVar[int] = 0x0F

    __slots__ = ("packet_id",)

    def __init__(self, packet_id: int) -> None:
        self.packet_id = packet_id


class CancelRequestResponse(RarePacket):
    """The answer to CancelRequest.

    Attributes:
        cancelled: True: the read took nothing. False: it was answered already, is being answered or is
            unknown.
    """

    METHOD_ID: ClassVar[int] = 0x10

    __slots__ = ("cancelled",)

    def __init__(self, cancelled: bool) -> None:
        self.cancelled = cancelled


class RegisterClient(RarePacket):
    """Creates a client and opens its first session. Repeated with the same token and mode, it answers with
    the same client and a new session.

    Attributes:
        client_name: Unique name, see [Names](#names).
        mode: What the client may do.
        token: 16 random bytes, the same in each repetition.
        attempt: Rises with each RegisterClient and IdentifyClient sent with this token: one that comes
            late, after a later one was executed, is refused with SESSION_FENCED. Tag 1; may be left out.
        temporary: The client lasts as long as it is connected: it is deleted some minutes after its
            connection was lost for good. Tag 2; may be left out.
        process: For people: which process this is, such as host:pid. At most 255 characters are kept. Tag
            3; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x11

    __slots__ = ("client_name", "mode", "token", "attempt", "temporary", "process")

    def __init__(
        self,
        client_name: str,
        mode: ClientMode,
        token: bytes,
        *,
        attempt: int | None = None,
        temporary: bool | None = None,
        process: str | None = None,
    ) -> None:
        self.client_name = client_name
        self.mode = mode
        self.token = token
        self.attempt = attempt
        self.temporary = temporary
        self.process = process


class RegisterClientResponse(RarePacket):
    """The new client and its session.

    Attributes:
        client_id: Identifies the client; never used again.
        session: The session; numbers start at 1.
        incarnation: Identifies the database; sessions and numbers mean something within one incarnation
            only.
    """

    METHOD_ID: ClassVar[int] = 0x12

    __slots__ = ("client_id", "session", "incarnation")

    def __init__(self, client_id: int, session: int, incarnation: str) -> None:
        self.client_id = client_id
        self.session = session
        self.incarnation = incarnation


class IdentifyClient(RarePacket):
    """Opens a new session of a client, which ends (fences) its session before, and returns what that one
    executed and the client has not confirmed: a takeover.

    Attributes:
        client_id: The client, or 0 to find it by name.
        client_name: The client's name when client_id is 0, else empty.
        token: 16 random bytes that stand for this process. The session opened with them can be resumed
            with them only; without them not at all. Tag 1; may be left out.
        resume: Only if the client's session was opened with this token, by RegisterClient or
            IdentifyClient: somebody else who was here meanwhile is not fenced, and SESSION_FENCED is
            answered. Tag 2; may be left out.
        attempt: Rises with each RegisterClient and IdentifyClient sent with this token: one that comes
            late, after a later one was executed, is refused with SESSION_FENCED. Tag 3; may be left out.
        mode: The mode that the client must have; with another one it is not taken over, and
            CLIENT_MODE_PERMISSION_VIOLATION is answered. Tag 4; may be left out.
        process: As in RegisterClient. Tag 5; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x13

    __slots__ = ("client_id", "client_name", "token", "resume", "attempt", "mode", "process")

    def __init__(
        self,
        client_id: int,
        client_name: str,
        *,
        token: bytes | None = None,
        resume: bool | None = None,
        attempt: int | None = None,
        mode: ClientMode | None = None,
        process: str | None = None,
    ) -> None:
        self.client_id = client_id
        self.client_name = client_name
        self.token = token
        self.resume = resume
        self.attempt = attempt
        self.mode = mode
        self.process = process


class IdentifyClientResponse(Packet):
    """The client, its new session, and the first page of what is unconfirmed.

    Attributes:
        client_id: The client.
        client_name: Its name.
        mode: What it may do.
        session: The new session.
        incarnation: Identifies the database.
        next_number: The number of the next numbered request.
        operations: Executed and unconfirmed requests other than reads, by session and number.
        hand_overs: Messages handed over and unconfirmed, by session, number and id.
        more: There is more: ask with ListUnconfirmed.
        too_large: As in ListUnconfirmedResponse. Tag 1; may be left out.
        denied: As in ListUnconfirmedResponse. Tag 2; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x14

    __slots__ = (
        "client_id",
        "client_name",
        "mode",
        "session",
        "incarnation",
        "next_number",
        "operations",
        "hand_overs",
        "more",
        "too_large",
        "denied",
    )

    def __init__(
        self,
        client_id: int,
        client_name: str,
        mode: ClientMode,
        session: int,
        incarnation: str,
        next_number: int,
        operations: list[OperationResult],
        hand_overs: list[HandOver],
        more: bool,
        *,
        too_large: list[HandOverRef] | None = None,
        denied: list[HandOverRef] | None = None,
    ) -> None:
        self.client_id = client_id
        self.client_name = client_name
        self.mode = mode
        self.session = session
        self.incarnation = incarnation
        self.next_number = next_number
        self.operations = operations
        self.hand_overs = hand_overs
        self.more = more
        self.too_large = too_large
        self.denied = denied

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            client_name = self.client_name.encode()
            client_name_size = len(client_name)
            incarnation = self.incarnation.encode()
            incarnation_size = len(incarnation)
            operations = self.operations
            operations_count = len(operations)
            operations_parts, operations_size = _write_operation_results(operations)
            hand_overs = self.hand_overs
            hand_overs_count = len(hand_overs)
            hand_overs_parts, hand_overs_size = _write_hand_overs(hand_overs)
            tagged: list[bytes] = []
            too_large = self.too_large
            if too_large is not None:
                too_large_count = len(too_large)
                too_large_parts, _ = _write_hand_over_refs(too_large)
                tagged.append(
                    write_tagged(
                        1,
                        b"".join(
                            (
                                _PACK_U32(too_large_count),
                                *too_large_parts,
                            )
                        ),
                    )
                )
            denied = self.denied
            if denied is not None:
                denied_count = len(denied)
                denied_parts, _ = _write_hand_over_refs(denied)
                tagged.append(
                    write_tagged(
                        2,
                        b"".join(
                            (
                                _PACK_U32(denied_count),
                                *denied_parts,
                            )
                        ),
                    )
                )
            tagged_part = b"".join(tagged)
            return b"".join(
                (
                    _PACK_U32_U16_U32_I64_U16(
                        45
                        + client_name_size
                        + incarnation_size
                        + operations_size
                        + hand_overs_size
                        + len(tagged_part),
                        0x14,
                        packet_id,
                        self.client_id,
                        client_name_size,
                    ),
                    client_name,
                    _PACK_U8_U64_U16(_CLIENT_MODE_BY_VALUE[self.mode], self.session, incarnation_size),
                    incarnation,
                    _PACK_U64_U32(self.next_number, operations_count),
                    *operations_parts,
                    _PACK_U32(hand_overs_count),
                    *hand_overs_parts,
                    _PACK_U8X2(1 if self.more else 0, len(tagged)),
                    tagged_part,
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("IdentifyClientResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            client_id, client_name_size = _UNPACK_I64_U16(payload)
            client_name = str(payload[10 : 10 + client_name_size], "utf-8")
            at = 10 + client_name_size
            mode, session, incarnation_size = _UNPACK_U8_U64_U16(payload, at)
            incarnation = str(payload[at + 11 : at + 11 + incarnation_size], "utf-8")
            at += 11 + incarnation_size
            next_number, operations_count = _UNPACK_U64_U32(payload, at)
            operations, at = _read_operation_results(payload, at + 12, operations_count)
            (hand_overs_count,) = _UNPACK_U32(payload, at)
            hand_overs, at = _read_hand_overs(payload, at + 4, hand_overs_count)
            more, tags = _UNPACK_U8X2(payload, at)
            at += 2
            too_large: list[HandOverRef] | None = None
            denied: list[HandOverRef] | None = None
            if tags:
                found, at = read_tags(payload, at, tags, _IDENTIFY_CLIENT_RESPONSE_TAGS)
                content = found.get(1)
                if content is not None:
                    (too_large_too_large_count,) = _UNPACK_U32(content)
                    too_large_too_large, place = _read_hand_over_refs(content, 4, too_large_too_large_count)
                    if len(content) != place:
                        raise ValueError("size")
                    too_large = too_large_too_large
                content = found.get(2)
                if content is not None:
                    (denied_denied_count,) = _UNPACK_U32(content)
                    denied_denied, place = _read_hand_over_refs(content, 4, denied_denied_count)
                    if len(content) != place:
                        raise ValueError("size")
                    denied = denied_denied
            if len(payload) != at:
                raise ValueError("end")
            return cls(
                client_id,
                client_name,
                _CLIENT_MODE_BY_VALUE[mode],
                session,
                incarnation,
                next_number,
                operations,
                hand_overs,
                BOOLS[more],
                too_large=too_large,
                denied=denied,
            )
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("IdentifyClientResponse", payload) from None


class DeleteClient(RarePacket):
    """Deletes the client of this connection. What the request confirms is done; its other unconfirmed
    messages go back to their queues, marked redelivered. Messages addressed to it stay. The connection is
    closed after the answer.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
    """

    METHOD_ID: ClassVar[int] = 0x15

    __slots__ = ("number", "confirmed")

    def __init__(self, number: int, confirmed: list[int]) -> None:
        self.number = number
        self.confirmed = confirmed


class Release(Packet):
    """Gives messages that were handed over and are unconfirmed back to their queues, to their old place,
    marked redelivered. What is no longer unconfirmed is passed over.

    Attributes:
        hand_overs: The messages to give back.
    """

    METHOD_ID: ClassVar[int] = 0x17

    __slots__ = ("hand_overs",)

    def __init__(self, hand_overs: list[HandOverRef]) -> None:
        self.hand_overs = hand_overs

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            hand_overs = self.hand_overs
            hand_overs_count = len(hand_overs)
            hand_overs_parts, hand_overs_size = _write_hand_over_refs(hand_overs)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + hand_overs_size, 0x17, packet_id, hand_overs_count),
                    *hand_overs_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Release", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (hand_overs_count,) = _UNPACK_U32(payload)
            hand_overs, at = _read_hand_over_refs(payload, 4, hand_overs_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(hand_overs)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Release", payload) from None


class ListUnconfirmed(RarePacket):
    """The next page of a takeover. Operations come before hand-overs; each list continues after the
    position given.

    Attributes:
        after_operation: The last operation received; zeros for none.
        after_hand_over: The last hand-over received, or named as too large or denied; zeros for none.
    """

    METHOD_ID: ClassVar[int] = 0x19

    __slots__ = ("after_operation", "after_hand_over")

    def __init__(self, after_operation: OperationRef, after_hand_over: HandOverRef) -> None:
        self.after_operation = after_operation
        self.after_hand_over = after_hand_over


class ListUnconfirmedResponse(Packet):
    """A page of what earlier sessions executed and the client has not confirmed.

    Attributes:
        operations: Requests other than reads.
        hand_overs: Messages handed over.
        more: There is more.
        too_large: Messages handed over that fit no frame which the client accepts. They stay unconfirmed,
            to be confirmed, released, or listed to a client that accepts more. They belong to the order of
            the hand-overs: the next page continues after the last of either. Tag 1; may be left out.
        denied: Messages handed over from queues from which the client's user may not read any more. They
            stay unconfirmed as those of `too_large`, in the same order, until the user may read them again.
            Tag 2; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x1A

    __slots__ = ("operations", "hand_overs", "more", "too_large", "denied")

    def __init__(
        self,
        operations: list[OperationResult],
        hand_overs: list[HandOver],
        more: bool,
        *,
        too_large: list[HandOverRef] | None = None,
        denied: list[HandOverRef] | None = None,
    ) -> None:
        self.operations = operations
        self.hand_overs = hand_overs
        self.more = more
        self.too_large = too_large
        self.denied = denied

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            operations = self.operations
            operations_count = len(operations)
            operations_parts, operations_size = _write_operation_results(operations)
            hand_overs = self.hand_overs
            hand_overs_count = len(hand_overs)
            hand_overs_parts, hand_overs_size = _write_hand_overs(hand_overs)
            tagged: list[bytes] = []
            too_large = self.too_large
            if too_large is not None:
                too_large_count = len(too_large)
                too_large_parts, _ = _write_hand_over_refs(too_large)
                tagged.append(
                    write_tagged(
                        1,
                        b"".join(
                            (
                                _PACK_U32(too_large_count),
                                *too_large_parts,
                            )
                        ),
                    )
                )
            denied = self.denied
            if denied is not None:
                denied_count = len(denied)
                denied_parts, _ = _write_hand_over_refs(denied)
                tagged.append(
                    write_tagged(
                        2,
                        b"".join(
                            (
                                _PACK_U32(denied_count),
                                *denied_parts,
                            )
                        ),
                    )
                )
            tagged_part = b"".join(tagged)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(
                        16 + operations_size + hand_overs_size + len(tagged_part),
                        0x1A,
                        packet_id,
                        operations_count,
                    ),
                    *operations_parts,
                    _PACK_U32(hand_overs_count),
                    *hand_overs_parts,
                    _PACK_U8X2(1 if self.more else 0, len(tagged)),
                    tagged_part,
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("ListUnconfirmedResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (operations_count,) = _UNPACK_U32(payload)
            operations, at = _read_operation_results(payload, 4, operations_count)
            (hand_overs_count,) = _UNPACK_U32(payload, at)
            hand_overs, at = _read_hand_overs(payload, at + 4, hand_overs_count)
            more, tags = _UNPACK_U8X2(payload, at)
            at += 2
            too_large: list[HandOverRef] | None = None
            denied: list[HandOverRef] | None = None
            if tags:
                found, at = read_tags(payload, at, tags, _LIST_UNCONFIRMED_RESPONSE_TAGS)
                content = found.get(1)
                if content is not None:
                    (too_large_too_large_count,) = _UNPACK_U32(content)
                    too_large_too_large, place = _read_hand_over_refs(content, 4, too_large_too_large_count)
                    if len(content) != place:
                        raise ValueError("size")
                    too_large = too_large_too_large
                content = found.get(2)
                if content is not None:
                    (denied_denied_count,) = _UNPACK_U32(content)
                    denied_denied, place = _read_hand_over_refs(content, 4, denied_denied_count)
                    if len(content) != place:
                        raise ValueError("size")
                    denied = denied_denied
            if len(payload) != at:
                raise ValueError("end")
            return cls(operations, hand_overs, BOOLS[more], too_large=too_large, denied=denied)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("ListUnconfirmedResponse", payload) from None


class CreateQueue(RarePacket):
    """Creates a queue.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        queue_name: Unique name, see [Names](#names).
        settings: What is not to be as usual.
    """

    METHOD_ID: ClassVar[int] = 0x21

    __slots__ = ("number", "confirmed", "queue_name", "settings")

    def __init__(self, number: int, confirmed: list[int], queue_name: str, settings: QueueSettings) -> None:
        self.number = number
        self.confirmed = confirmed
        self.queue_name = queue_name
        self.settings = settings


class CreateQueueResponse(RarePacket):
    """The new queue.

    Attributes:
        queue: The new queue.
    """

    METHOD_ID: ClassVar[int] = 0x22

    __slots__ = ("queue",)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue


class DeleteQueue(RarePacket):
    """Deletes a queue and its messages. Waiting reads are answered with QUEUE_NOT_EXISTING.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        queue_id: The queue.
    """

    METHOD_ID: ClassVar[int] = 0x23

    __slots__ = ("number", "confirmed", "queue_id")

    def __init__(self, number: int, confirmed: list[int], queue_id: int) -> None:
        self.number = number
        self.confirmed = confirmed
        self.queue_id = queue_id


class GetQueueId(RarePacket):
    """Finds a queue by its name.

    Attributes:
        queue_name: The name.
    """

    METHOD_ID: ClassVar[int] = 0x25

    __slots__ = ("queue_name",)

    def __init__(self, queue_name: str) -> None:
        self.queue_name = queue_name


class GetQueueIdResponse(RarePacket):
    """The queue's id.

    Attributes:
        queue_id: The queue.
    """

    METHOD_ID: ClassVar[int] = 0x26

    __slots__ = ("queue_id",)

    def __init__(self, queue_id: int) -> None:
        self.queue_id = queue_id


class GetQueueName(RarePacket):
    """Finds a queue's name.

    Attributes:
        queue_id: The queue.
    """

    METHOD_ID: ClassVar[int] = 0x27

    __slots__ = ("queue_id",)

    def __init__(self, queue_id: int) -> None:
        self.queue_id = queue_id


class GetQueueNameResponse(RarePacket):
    """The queue's name.

    Attributes:
        queue_name: The name.
    """

    METHOD_ID: ClassVar[int] = 0x28

    __slots__ = ("queue_name",)

    def __init__(self, queue_name: str) -> None:
        self.queue_name = queue_name


class GetQueues(RarePacket):
    """Lists the queues by rising id, page by page: the ids and names, with which a client works.
    ListQueues tells more, for people.

    Attributes:
        after_queue_id: The last queue received; 0 for the first page.
        limit: The largest number of elements in the answer; the middleware may send fewer.
    """

    METHOD_ID: ClassVar[int] = 0x29

    __slots__ = ("after_queue_id", "limit")

    def __init__(self, after_queue_id: int, limit: int) -> None:
        self.after_queue_id = after_queue_id
        self.limit = limit


class GetQueuesResponse(Packet):
    """A page of queues.

    Attributes:
        queues: The queues; may be empty.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x2A

    __slots__ = ("queues", "more")

    def __init__(self, queues: list[Queue], more: bool) -> None:
        self.queues = queues
        self.more = more

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            queues = self.queues
            queues_count = len(queues)
            queues_parts, queues_size = _write_queues(queues)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(12 + queues_size, 0x2A, packet_id, queues_count),
                    *queues_parts,
                    _PACK_U8X2(1 if self.more else 0, 0),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("GetQueuesResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (queues_count,) = _UNPACK_U32(payload)
            queues, at = _read_queues(payload, 4, queues_count)
            more, tags = _UNPACK_U8X2(payload, at)
            if tags or len(payload) != at + 2:
                check_end(payload, at + 2, tags)
            return cls(queues, BOOLS[more])
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("GetQueuesResponse", payload) from None


class GetActiveQueues(RarePacket):
    """Lists the queues that hold a message which this client may read, by rising id, page by page.

    Attributes:
        after_queue_id: The last queue received; 0 for the first page.
        limit: The largest number of elements in the answer; the middleware may send fewer.
    """

    METHOD_ID: ClassVar[int] = 0x2B

    __slots__ = ("after_queue_id", "limit")

    def __init__(self, after_queue_id: int, limit: int) -> None:
        self.after_queue_id = after_queue_id
        self.limit = limit


class GetActiveQueuesResponse(Packet):
    """A page of queues.

    Attributes:
        queues: The queues; may be empty.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x2C

    __slots__ = ("queues", "more")

    def __init__(self, queues: list[Queue], more: bool) -> None:
        self.queues = queues
        self.more = more

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            queues = self.queues
            queues_count = len(queues)
            queues_parts, queues_size = _write_queues(queues)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(12 + queues_size, 0x2C, packet_id, queues_count),
                    *queues_parts,
                    _PACK_U8X2(1 if self.more else 0, 0),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("GetActiveQueuesResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (queues_count,) = _UNPACK_U32(payload)
            queues, at = _read_queues(payload, 4, queues_count)
            more, tags = _UNPACK_U8X2(payload, at)
            if tags or len(payload) != at + 2:
                check_end(payload, at + 2, tags)
            return cls(queues, BOOLS[more])
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("GetActiveQueuesResponse", payload) from None


class GetMessages(RarePacket):
    """Browses: shows the messages that this client may read, by rising id, without taking them.

    Attributes:
        queue_id: The queue.
        after_message_id: The last message received; 0 for the first page.
        limit: The largest number of elements in the answer; the middleware may send fewer.
    """

    METHOD_ID: ClassVar[int] = 0x2D

    __slots__ = ("queue_id", "after_message_id", "limit")

    def __init__(self, queue_id: int, after_message_id: int, limit: int) -> None:
        self.queue_id = queue_id
        self.after_message_id = after_message_id
        self.limit = limit


class GetMessagesResponse(Packet):
    """A page of messages.

    Attributes:
        messages: The messages; may be empty.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x2E

    __slots__ = ("messages", "more")

    def __init__(self, messages: list[Message], more: bool) -> None:
        self.messages = messages
        self.more = more

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            messages = self.messages
            messages_count = len(messages)
            messages_parts, messages_size = _write_messages(messages)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(12 + messages_size, 0x2E, packet_id, messages_count),
                    *messages_parts,
                    _PACK_U8X2(1 if self.more else 0, 0),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("GetMessagesResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (messages_count,) = _UNPACK_U32(payload)
            messages, at = _read_messages(payload, 4, messages_count)
            more, tags = _UNPACK_U8X2(payload, at)
            if tags or len(payload) != at + 2:
                check_end(payload, at + 2, tags)
            return cls(messages, BOOLS[more])
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("GetMessagesResponse", payload) from None


class PutMessage(Packet):
    """Puts one message into one or several queues, in one transaction. A queue that does not exist or is
    full is reported; the others take the message.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        message: The message.
        queue_ids: The queues, each once.
    """

    METHOD_ID: ClassVar[int] = 0x31

    __slots__ = ("number", "confirmed", "message", "queue_ids")

    def __init__(self, number: int, confirmed: list[int], message: NewMessage, queue_ids: list[int]) -> None:
        self.number = number
        self.confirmed = confirmed
        self.message = message
        self.queue_ids = queue_ids

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            confirmed = self.confirmed
            confirmed_count = len(confirmed)
            message = self.message
            body = message.body
            body_size = len(body)
            context = message.context
            tagged: list[bytes] = []
            dedup_key = message.dedup_key
            if dedup_key is not None:
                dedup_key_dedup_key = dedup_key.encode()
                dedup_key_dedup_key_size = len(dedup_key_dedup_key)
                tagged.append(
                    write_tagged(
                        1,
                        b"".join(
                            (
                                _PACK_U16(dedup_key_dedup_key_size),
                                dedup_key_dedup_key,
                            )
                        ),
                    )
                )
            partition_key = message.partition_key
            if partition_key is not None:
                partition_key_partition_key = partition_key.encode()
                partition_key_partition_key_size = len(partition_key_partition_key)
                tagged.append(
                    write_tagged(
                        2,
                        b"".join(
                            (
                                _PACK_U16(partition_key_partition_key_size),
                                partition_key_partition_key,
                            )
                        ),
                    )
                )
            delay_ms = message.delay_ms
            if delay_ms is not None:
                tagged.append(write_tagged(3, _PACK_I64(delay_ms)))
            expires_ms = message.expires_ms
            if expires_ms is not None:
                tagged.append(write_tagged(4, _PACK_I64(expires_ms)))
            headers = message.headers
            if headers is not None:
                headers_count = len(headers)
                headers_parts, _ = _write_headers(headers)
                tagged.append(
                    write_tagged(
                        5,
                        b"".join(
                            (
                                _PACK_U32(headers_count),
                                *headers_parts,
                            )
                        ),
                    )
                )
            tagged_part = b"".join(tagged)
            context_part = (
                _PACK_U8X2(0, len(tagged)) if context is None else _PACK_U8_I64_U8(1, context, len(tagged))
            )
            queue_ids = self.queue_ids
            queue_ids_count = len(queue_ids)
            return b"".join(
                (
                    _PACK_U32_U16_U32_U64_U32(
                        36
                        + 8 * confirmed_count
                        + body_size
                        + len(context_part)
                        + len(tagged_part)
                        + 8 * queue_ids_count,
                        0x31,
                        packet_id,
                        self.number,
                        confirmed_count,
                    ),
                    _PACK_U64S[confirmed_count](*confirmed),
                    _PACK_U8_I64_U32(message.priority, message.receiver_id, body_size),
                    body,
                    context_part,
                    tagged_part,
                    _PACK_U32(queue_ids_count),
                    _PACK_I64S[queue_ids_count](*queue_ids),
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("PutMessage", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            number, confirmed_count = _UNPACK_U64_U32(payload)
            confirmed = list(_UNPACK_U64S[confirmed_count](payload, 12))
            at = 12 + 8 * confirmed_count
            priority, receiver_id, body_size = _UNPACK_U8_I64_U32(payload, at)
            body = payload[at + 13 : at + 13 + body_size]
            at += 13 + body_size
            context_flag = payload[at]
            context: int | None = None
            if context_flag:
                if context_flag != 1:
                    raise ValueError("flag")
                (context,) = _UNPACK_I64(payload, at + 1)
                at += 8
            message_tags = payload[at + 1]
            at += 2
            dedup_key: str | None = None
            partition_key: str | None = None
            delay_ms: int | None = None
            expires_ms: int | None = None
            headers: list[Header] | None = None
            if message_tags:
                found, at = read_tags(payload, at, message_tags, _NEW_MESSAGE_TAGS)
                content = found.get(1)
                if content is not None:
                    (dedup_key_dedup_key_size,) = _UNPACK_U16(content)
                    dedup_key_dedup_key = str(content[2 : 2 + dedup_key_dedup_key_size], "utf-8")
                    place = 2 + dedup_key_dedup_key_size
                    if len(content) != place:
                        raise ValueError("size")
                    dedup_key = dedup_key_dedup_key
                content = found.get(2)
                if content is not None:
                    (partition_key_partition_key_size,) = _UNPACK_U16(content)
                    partition_key_partition_key = str(
                        content[2 : 2 + partition_key_partition_key_size], "utf-8"
                    )
                    place = 2 + partition_key_partition_key_size
                    if len(content) != place:
                        raise ValueError("size")
                    partition_key = partition_key_partition_key
                content = found.get(3)
                if content is not None:
                    (delay_ms_delay_ms,) = _UNPACK_I64(content)
                    if len(content) != 8:
                        raise ValueError("size")
                    delay_ms = delay_ms_delay_ms
                content = found.get(4)
                if content is not None:
                    (expires_ms_expires_ms,) = _UNPACK_I64(content)
                    if len(content) != 8:
                        raise ValueError("size")
                    expires_ms = expires_ms_expires_ms
                content = found.get(5)
                if content is not None:
                    (headers_headers_count,) = _UNPACK_U32(content)
                    headers_headers, place = _read_headers(content, 4, headers_headers_count)
                    if len(content) != place:
                        raise ValueError("size")
                    headers = headers_headers
            (queue_ids_count,) = _UNPACK_U32(payload, at)
            queue_ids = list(_UNPACK_I64S[queue_ids_count](payload, at + 4))
            at += 4 + 8 * queue_ids_count
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(
                number,
                confirmed,
                NewMessage(
                    priority,
                    receiver_id,
                    body,
                    context,
                    dedup_key=dedup_key,
                    partition_key=partition_key,
                    delay_ms=delay_ms,
                    expires_ms=expires_ms,
                    headers=headers,
                ),
                queue_ids,
            )
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("PutMessage", payload) from None


class PutMessageResponse(Packet):
    """What became of the message in each queue.

    Attributes:
        results: One for each queue, in the request's order.
    """

    METHOD_ID: ClassVar[int] = 0x32

    __slots__ = ("results",)

    def __init__(self, results: list[PutResult]) -> None:
        self.results = results

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            results = self.results
            results_count = len(results)
            results_parts, results_size = _write_put_results(results)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + results_size, 0x32, packet_id, results_count),
                    *results_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("PutMessageResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (results_count,) = _UNPACK_U32(payload)
            results, at = _read_put_results(payload, 4, results_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(results)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("PutMessageResponse", payload) from None


class ReadMessage(Packet):
    """Takes messages from a queue: those for anyone and those for this client.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        queue_id: The queue.
        sender_id: Only messages of this sender; 0 for any.
        mode: Which message comes first.
        wait_ms: How long to wait for the first message, in milliseconds; 0 not at all; 4294967295 without
            limit.
        max_messages: The largest number of messages in the answer; at least 1.
        max_bytes: The largest sum of the sizes of bodies, in bytes; 0 for what fits the frame. A first
            message beyond it is not taken and answered with MESSAGE_TOO_LARGE.
    """

    METHOD_ID: ClassVar[int] = 0x33

    __slots__ = (
        "number",
        "confirmed",
        "queue_id",
        "sender_id",
        "mode",
        "wait_ms",
        "max_messages",
        "max_bytes",
    )

    def __init__(
        self,
        number: int,
        confirmed: list[int],
        queue_id: int,
        sender_id: int,
        mode: ReadMode,
        wait_ms: int,
        max_messages: int,
        max_bytes: int,
    ) -> None:
        self.number = number
        self.confirmed = confirmed
        self.queue_id = queue_id
        self.sender_id = sender_id
        self.mode = mode
        self.wait_ms = wait_ms
        self.max_messages = max_messages
        self.max_bytes = max_bytes

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            confirmed = self.confirmed
            confirmed_count = len(confirmed)
            return b"".join(
                (
                    _PACK_U32_U16_U32_U64_U32(
                        48 + 8 * confirmed_count, 0x33, packet_id, self.number, confirmed_count
                    ),
                    _PACK_U64S[confirmed_count](*confirmed),
                    _PACK_I64X2_U8_U32X3_U8(
                        self.queue_id,
                        self.sender_id,
                        _READ_MODE_BY_VALUE[self.mode],
                        self.wait_ms,
                        self.max_messages,
                        self.max_bytes,
                        0,
                    ),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("ReadMessage", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            number, confirmed_count = _UNPACK_U64_U32(payload)
            confirmed = list(_UNPACK_U64S[confirmed_count](payload, 12))
            at = 12 + 8 * confirmed_count
            queue_id, sender_id, mode, wait_ms, max_messages, max_bytes, tags = _UNPACK_I64X2_U8_U32X3_U8(
                payload, at
            )
            if tags or len(payload) != at + 30:
                check_end(payload, at + 30, tags)
            return cls(
                number,
                confirmed,
                queue_id,
                sender_id,
                _READ_MODE_BY_VALUE[mode],
                wait_ms,
                max_messages,
                max_bytes,
            )
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("ReadMessage", payload) from None


class ReadMessageResponse(Packet):
    """The messages taken.

    Attributes:
        messages: The messages, in order; empty when none came within the time.
    """

    METHOD_ID: ClassVar[int] = 0x34

    __slots__ = ("messages",)

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            messages = self.messages
            messages_count = len(messages)
            messages_parts, messages_size = _write_messages(messages)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + messages_size, 0x34, packet_id, messages_count),
                    *messages_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("ReadMessageResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (messages_count,) = _UNPACK_U32(payload)
            messages, at = _read_messages(payload, 4, messages_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(messages)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("ReadMessageResponse", payload) from None


class ReadResponse(Packet):
    """Takes the response to a request: the message for this client with the request's context.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        queue_id: The queue.
        context: The context of the request.
        wait_ms: How long to wait, in milliseconds; 0 not at all; 4294967295 without limit.
    """

    METHOD_ID: ClassVar[int] = 0x35

    __slots__ = ("number", "confirmed", "queue_id", "context", "wait_ms")

    def __init__(self, number: int, confirmed: list[int], queue_id: int, context: int, wait_ms: int) -> None:
        self.number = number
        self.confirmed = confirmed
        self.queue_id = queue_id
        self.context = context
        self.wait_ms = wait_ms

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            confirmed = self.confirmed
            confirmed_count = len(confirmed)
            return b"".join(
                (
                    _PACK_U32_U16_U32_U64_U32(
                        39 + 8 * confirmed_count, 0x35, packet_id, self.number, confirmed_count
                    ),
                    _PACK_U64S[confirmed_count](*confirmed),
                    _PACK_I64X2_U32_U8(self.queue_id, self.context, self.wait_ms, 0),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("ReadResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            number, confirmed_count = _UNPACK_U64_U32(payload)
            confirmed = list(_UNPACK_U64S[confirmed_count](payload, 12))
            at = 12 + 8 * confirmed_count
            queue_id, context, wait_ms, tags = _UNPACK_I64X2_U32_U8(payload, at)
            if tags or len(payload) != at + 21:
                check_end(payload, at + 21, tags)
            return cls(number, confirmed, queue_id, context, wait_ms)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("ReadResponse", payload) from None


class ReadResponseResponse(Packet):
    """The response.

    Attributes:
        messages: One message, or none when none came within the time.
    """

    METHOD_ID: ClassVar[int] = 0x36

    __slots__ = ("messages",)

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            messages = self.messages
            messages_count = len(messages)
            messages_parts, messages_size = _write_messages(messages)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + messages_size, 0x36, packet_id, messages_count),
                    *messages_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("ReadResponseResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (messages_count,) = _UNPACK_U32(payload)
            messages, at = _read_messages(payload, 4, messages_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(messages)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("ReadResponseResponse", payload) from None


class PutMessages(Packet):
    """Puts several messages in one transaction.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        messages: The messages, in the order in which they are put.
    """

    METHOD_ID: ClassVar[int] = 0x37

    __slots__ = ("number", "confirmed", "messages")

    def __init__(self, number: int, confirmed: list[int], messages: list[QueuedMessage]) -> None:
        self.number = number
        self.confirmed = confirmed
        self.messages = messages

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            confirmed = self.confirmed
            confirmed_count = len(confirmed)
            messages = self.messages
            messages_count = len(messages)
            messages_parts, messages_size = _write_queued_messages(messages)
            return b"".join(
                (
                    _PACK_U32_U16_U32_U64_U32(
                        23 + 8 * confirmed_count + messages_size,
                        0x37,
                        packet_id,
                        self.number,
                        confirmed_count,
                    ),
                    _PACK_U64S[confirmed_count](*confirmed),
                    _PACK_U32(messages_count),
                    *messages_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("PutMessages", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            number, confirmed_count = _UNPACK_U64_U32(payload)
            confirmed = list(_UNPACK_U64S[confirmed_count](payload, 12))
            at = 12 + 8 * confirmed_count
            (messages_count,) = _UNPACK_U32(payload, at)
            messages, at = _read_queued_messages(payload, at + 4, messages_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(number, confirmed, messages)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("PutMessages", payload) from None


class PutMessagesResponse(Packet):
    """What became of each message.

    Attributes:
        results: One for each message, in the request's order.
    """

    METHOD_ID: ClassVar[int] = 0x38

    __slots__ = ("results",)

    def __init__(self, results: list[PutResult]) -> None:
        self.results = results

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            results = self.results
            results_count = len(results)
            results_parts, results_size = _write_put_results(results)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + results_size, 0x38, packet_id, results_count),
                    *results_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("PutMessagesResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (results_count,) = _UNPACK_U32(payload)
            results, at = _read_put_results(payload, 4, results_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(results)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("PutMessagesResponse", payload) from None


class Subscribe(RarePacket):
    """Subscribes the client to a topic, for good: it is owed every message whose put is processed after
    this, until Unsubscribe. The topic is created on its first use. A subscription that was dropped for its
    lag is replaced by a new one.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        topic: The topic's name, see [Names](#names).
        max_behind: A limit in messages: behind by more, the subscription is lagging. Tag 1; may be left
            out.
        max_age_ms: A limit in time, in milliseconds: when its next message is older, the subscription is
            lagging. Tag 2; may be left out.
        drop: Lagging, the subscription is dropped: its messages go, and the next get tells. Tag 3; may be
            left out.
    """

    METHOD_ID: ClassVar[int] = 0x41

    __slots__ = ("number", "confirmed", "topic", "max_behind", "max_age_ms", "drop")

    def __init__(
        self,
        number: int,
        confirmed: list[int],
        topic: str,
        *,
        max_behind: int | None = None,
        max_age_ms: int | None = None,
        drop: bool | None = None,
    ) -> None:
        self.number = number
        self.confirmed = confirmed
        self.topic = topic
        self.max_behind = max_behind
        self.max_age_ms = max_age_ms
        self.drop = drop


class SubscribeResponse(RarePacket):
    """The new subscription. ALREADY_SUBSCRIBED names the one that there is as its related id.

    Attributes:
        subscription_id: Identifies the subscription; never used again.
    """

    METHOD_ID: ClassVar[int] = 0x42

    __slots__ = ("subscription_id",)

    def __init__(self, subscription_id: int) -> None:
        self.subscription_id = subscription_id


class Unsubscribe(RarePacket):
    """Ends the client's subscription of a topic. It gets nothing more, not even what was put before.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        topic: The topic's name.
    """

    METHOD_ID: ClassVar[int] = 0x43

    __slots__ = ("number", "confirmed", "topic")

    def __init__(self, number: int, confirmed: list[int], topic: str) -> None:
        self.number = number
        self.confirmed = confirmed
        self.topic = topic


class GetFromTopics(Packet):
    """Gets the next messages of one subscription of the client, or of all of them, the earliest arrival
    first; those of one topic always in the order of their numbers. What the positions confirm never comes
    again, through any middleware; what they do not confirm comes again when it is asked for again.

    Attributes:
        subscription_id: The subscription; 0 to name its topic instead.
        topic: The topic, when subscription_id is 0, and empty for all topics that the client subscribes
            to; else empty.
        positions: How far the client is, of the subscriptions where it has something to say, each once.
            Those that the client does not have any more are passed over.
        wait_ms: How long to wait for the first message, in milliseconds; 0 not at all; 4294967295 without
            limit.
        max_messages: The largest number of messages in the answer; at least 1.
        max_bytes: The largest sum of the sizes of bodies, in bytes; 0 for what fits the frame. A first
            message beyond it is answered with MESSAGE_TOO_LARGE and its number.
    """

    METHOD_ID: ClassVar[int] = 0x45

    __slots__ = ("subscription_id", "topic", "positions", "wait_ms", "max_messages", "max_bytes")

    def __init__(
        self,
        subscription_id: int,
        topic: str,
        positions: list[TopicPosition],
        wait_ms: int,
        max_messages: int,
        max_bytes: int,
    ) -> None:
        self.subscription_id = subscription_id
        self.topic = topic
        self.positions = positions
        self.wait_ms = wait_ms
        self.max_messages = max_messages
        self.max_bytes = max_bytes

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            topic = self.topic.encode()
            topic_size = len(topic)
            positions = self.positions
            positions_count = len(positions)
            positions_parts, positions_size = _write_topic_positions(positions)
            return b"".join(
                (
                    _PACK_U32_U16_U32_I64_U16(
                        33 + topic_size + positions_size, 0x45, packet_id, self.subscription_id, topic_size
                    ),
                    topic,
                    _PACK_U32(positions_count),
                    *positions_parts,
                    _PACK_U32X3_U8(self.wait_ms, self.max_messages, self.max_bytes, 0),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("GetFromTopics", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            subscription_id, topic_size = _UNPACK_I64_U16(payload)
            topic = str(payload[10 : 10 + topic_size], "utf-8")
            at = 10 + topic_size
            (positions_count,) = _UNPACK_U32(payload, at)
            positions, at = _read_topic_positions(payload, at + 4, positions_count)
            wait_ms, max_messages, max_bytes, tags = _UNPACK_U32X3_U8(payload, at)
            if tags or len(payload) != at + 13:
                check_end(payload, at + 13, tags)
            return cls(subscription_id, topic, positions, wait_ms, max_messages, max_bytes)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("GetFromTopics", payload) from None


class GetFromTopicsResponse(Packet):
    """Messages of topics.

    Attributes:
        messages: The messages; empty when none came within the time.
        names: The topics of the subscriptions of these messages, where the request did not name the
            subscription.
    """

    METHOD_ID: ClassVar[int] = 0x46

    __slots__ = ("messages", "names")

    def __init__(self, messages: list[TopicMessage], names: list[SubscriptionName]) -> None:
        self.messages = messages
        self.names = names

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            messages = self.messages
            messages_count = len(messages)
            messages_parts, messages_size = _write_topic_messages(messages)
            names = self.names
            names_count = len(names)
            names_parts, names_size = _write_subscription_names(names)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(15 + messages_size + names_size, 0x46, packet_id, messages_count),
                    *messages_parts,
                    _PACK_U32(names_count),
                    *names_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("GetFromTopicsResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (messages_count,) = _UNPACK_U32(payload)
            messages, at = _read_topic_messages(payload, 4, messages_count)
            (names_count,) = _UNPACK_U32(payload, at)
            names, at = _read_subscription_names(payload, at + 4, names_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(messages, names)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("GetFromTopicsResponse", payload) from None


class PutToTopic(Packet):
    """Puts messages to a topic, in one transaction: each to everybody who subscribes to it then. The topic
    is created on its first use.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        topic: The topic's name, see [Names](#names).
        messages: The messages, in their order; at least one.
    """

    METHOD_ID: ClassVar[int] = 0x47

    __slots__ = ("number", "confirmed", "topic", "messages")

    def __init__(
        self, number: int, confirmed: list[int], topic: str, messages: list[NewTopicMessage]
    ) -> None:
        self.number = number
        self.confirmed = confirmed
        self.topic = topic
        self.messages = messages

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            confirmed = self.confirmed
            confirmed_count = len(confirmed)
            topic = self.topic.encode()
            topic_size = len(topic)
            messages = self.messages
            messages_count = len(messages)
            messages_parts, messages_size = _write_new_topic_messages(messages)
            return b"".join(
                (
                    _PACK_U32_U16_U32_U64_U32(
                        25 + 8 * confirmed_count + topic_size + messages_size,
                        0x47,
                        packet_id,
                        self.number,
                        confirmed_count,
                    ),
                    _PACK_U64S[confirmed_count](*confirmed),
                    _PACK_U16(topic_size),
                    topic,
                    _PACK_U32(messages_count),
                    *messages_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("PutToTopic", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            number, confirmed_count = _UNPACK_U64_U32(payload)
            confirmed = list(_UNPACK_U64S[confirmed_count](payload, 12))
            at = 12 + 8 * confirmed_count
            (topic_size,) = _UNPACK_U16(payload, at)
            topic = str(payload[at + 2 : at + 2 + topic_size], "utf-8")
            at += 2 + topic_size
            (messages_count,) = _UNPACK_U32(payload, at)
            messages, at = _read_new_topic_messages(payload, at + 4, messages_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(number, confirmed, topic, messages)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("PutToTopic", payload) from None


class PutToTopicResponse(Packet):
    """What became of each message.

    Attributes:
        results: One for each message, in the request's order.
    """

    METHOD_ID: ClassVar[int] = 0x48

    __slots__ = ("results",)

    def __init__(self, results: list[TopicPutResult]) -> None:
        self.results = results

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            results = self.results
            results_count = len(results)
            results_parts, results_size = _write_topic_put_results(results)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + results_size, 0x48, packet_id, results_count),
                    *results_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("PutToTopicResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (results_count,) = _UNPACK_U32(payload)
            results, at = _read_topic_put_results(payload, 4, results_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(results)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("PutToTopicResponse", payload) from None


class ListTopics(RarePacket):
    """Lists the topics by rising id, page by page.

    Attributes:
        after_topic_id: The last topic received; 0 for the first page.
        limit: The largest number of elements in the answer; the middleware may send fewer.
        like: Only those whose name is like this: `*` stands for any characters, `?` for one. At most
            1,024 characters. Tag 1; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x49

    __slots__ = ("after_topic_id", "limit", "like")

    def __init__(self, after_topic_id: int, limit: int, *, like: str | None = None) -> None:
        self.after_topic_id = after_topic_id
        self.limit = limit
        self.like = like


class ListTopicsResponse(Packet):
    """A page of topics.

    Attributes:
        topics: The topics; may be empty.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x4A

    __slots__ = ("topics", "more")

    def __init__(self, topics: list[TopicFigures], more: bool) -> None:
        self.topics = topics
        self.more = more

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            topics = self.topics
            topics_count = len(topics)
            topics_parts, topics_size = _write_topic_figuress(topics)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(12 + topics_size, 0x4A, packet_id, topics_count),
                    *topics_parts,
                    _PACK_U8X2(1 if self.more else 0, 0),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("ListTopicsResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (topics_count,) = _UNPACK_U32(payload)
            topics, at = _read_topic_figuress(payload, 4, topics_count)
            more, tags = _UNPACK_U8X2(payload, at)
            if tags or len(payload) != at + 2:
                check_end(payload, at + 2, tags)
            return cls(topics, BOOLS[more])
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("ListTopicsResponse", payload) from None


class ListSubscriptions(RarePacket):
    """Lists the client's own subscriptions by rising id, page by page.

    Attributes:
        after_subscription_id: The last subscription received; 0 for the first page.
        limit: The largest number of elements in the answer; the middleware may send fewer.
    """

    METHOD_ID: ClassVar[int] = 0x4B

    __slots__ = ("after_subscription_id", "limit")

    def __init__(self, after_subscription_id: int, limit: int) -> None:
        self.after_subscription_id = after_subscription_id
        self.limit = limit


class ListSubscriptionsResponse(Packet):
    """A page of subscriptions.

    Attributes:
        subscriptions: The subscriptions; may be empty.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x4C

    __slots__ = ("subscriptions", "more")

    def __init__(self, subscriptions: list[SubscriptionFigures], more: bool) -> None:
        self.subscriptions = subscriptions
        self.more = more

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            subscriptions = self.subscriptions
            subscriptions_count = len(subscriptions)
            subscriptions_parts, subscriptions_size = _write_subscription_figuress(subscriptions)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(12 + subscriptions_size, 0x4C, packet_id, subscriptions_count),
                    *subscriptions_parts,
                    _PACK_U8X2(1 if self.more else 0, 0),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("ListSubscriptionsResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (subscriptions_count,) = _UNPACK_U32(payload)
            subscriptions, at = _read_subscription_figuress(payload, 4, subscriptions_count)
            more, tags = _UNPACK_U8X2(payload, at)
            if tags or len(payload) != at + 2:
                check_end(payload, at + 2, tags)
            return cls(subscriptions, BOOLS[more])
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("ListSubscriptionsResponse", payload) from None


class ConfirmPositions(Packet):
    """Says how far the client is in its subscriptions, when no GetFromTopics says it. Saying it twice is
    harmless.

    Attributes:
        positions: As in GetFromTopics; what they say of after has no meaning here.
    """

    METHOD_ID: ClassVar[int] = 0x4D

    __slots__ = ("positions",)

    def __init__(self, positions: list[TopicPosition]) -> None:
        self.positions = positions

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            positions = self.positions
            positions_count = len(positions)
            positions_parts, positions_size = _write_topic_positions(positions)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + positions_size, 0x4D, packet_id, positions_count),
                    *positions_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("ConfirmPositions", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (positions_count,) = _UNPACK_U32(payload)
            positions, at = _read_topic_positions(payload, 4, positions_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(positions)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("ConfirmPositions", payload) from None


class DeleteTopic(RarePacket):
    """Deletes a topic that has no subscriptions, and what it knows of the sequences of publishers. A topic
    of the same name that is created later is another one, whose numbers begin at 1. A topic to which nobody
    subscribes or puts for a day, unless the service is set otherwise, is deleted by itself, unless a
    publisher has numbered its messages in it.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        topic: The topic's name.
    """

    METHOD_ID: ClassVar[int] = 0x4F

    __slots__ = ("number", "confirmed", "topic")

    def __init__(self, number: int, confirmed: list[int], topic: str) -> None:
        self.number = number
        self.confirmed = confirmed
        self.topic = topic


class JoinQueue(RarePacket):
    """Makes a consumer of a queue: the middleware pushes messages to it with Deliver, each to one
    consumer. It lives as long as this connection; when it ends, what it has not acknowledged goes back to the
    queue, marked redelivered, and counts as a failed attempt if it has begun.

    Attributes:
        queue_id: The queue.
        credit_messages: How many messages it may have at a time; 0 for none until Credit gives some.
        credit_bytes: How many bytes of bodies it may have at a time; 0 for any number. A larger message
            comes when it has nothing else.
    """

    METHOD_ID: ClassVar[int] = 0x51

    __slots__ = ("queue_id", "credit_messages", "credit_bytes")

    def __init__(self, queue_id: int, credit_messages: int, credit_bytes: int) -> None:
        self.queue_id = queue_id
        self.credit_messages = credit_messages
        self.credit_bytes = credit_bytes


class JoinQueueResponse(RarePacket):
    """The new consumer.

    Attributes:
        consumer_id: Identifies the consumer; never used again.
        lease_ms: How long it may take for a message that has begun before that goes to another consumer,
            in milliseconds.
    """

    METHOD_ID: ClassVar[int] = 0x52

    __slots__ = ("consumer_id", "lease_ms")

    def __init__(self, consumer_id: int, lease_ms: int) -> None:
        self.consumer_id = consumer_id
        self.lease_ms = lease_ms


class Credit(Packet):
    """Sets how much a consumer may have at a time, what it has already included. Handled at once, without
    waiting for requests before it.

    Attributes:
        consumer_id: The consumer.
        credit_messages: How many messages; 0 pauses it.
        credit_bytes: How many bytes of bodies; 0 for any number.
    """

    METHOD_ID: ClassVar[int] = 0x53

    __slots__ = ("consumer_id", "credit_messages", "credit_bytes")

    def __init__(self, consumer_id: int, credit_messages: int, credit_bytes: int) -> None:
        self.consumer_id = consumer_id
        self.credit_messages = credit_messages
        self.credit_bytes = credit_bytes

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            return _PACK_U32_U16_U32_I64_U32X2_U8(
                23, 0x53, packet_id, self.consumer_id, self.credit_messages, self.credit_bytes, 0
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Credit", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            consumer_id, credit_messages, credit_bytes, tags = _UNPACK_I64_U32X2_U8(payload)
            if tags or len(payload) != 17:
                check_end(payload, 17, tags)
            return cls(consumer_id, credit_messages, credit_bytes)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Credit", payload) from None


class Deliver(Packet):
    """Gives messages to a consumer. They wait there until the application is given them, which Begin
    tells. One that has begun has to be answered by Ack or Nack before its lease ends, which begins with
    Begin; Touch begins the lease anew. The middleware has the leases of those that wait hold on as long as it
    hears from the client, which sends something at least every quarter of the lease, by Ping for example.
    After three quarters of silence they come back, which counts as no attempt, and nothing more is given
    until the client is heard.

    Attributes:
        consumer_id: The consumer.
        deliveries: The messages: the highest priority first, of equal ones the oldest. Several may have
            one lease_id: consumer, lease and message together name a delivery.
    """

    METHOD_ID: ClassVar[int] = 0x54

    __slots__ = ("consumer_id", "deliveries")

    def __init__(self, consumer_id: int, deliveries: list[Delivery]) -> None:
        self.consumer_id = consumer_id
        self.deliveries = deliveries

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            deliveries = self.deliveries
            deliveries_count = len(deliveries)
            deliveries_parts, deliveries_size = _write_deliverys(deliveries)
            return b"".join(
                (
                    _PACK_U32_U16_U32_I64_U32(
                        19 + deliveries_size, 0x54, packet_id, self.consumer_id, deliveries_count
                    ),
                    *deliveries_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Deliver", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            consumer_id, deliveries_count = _UNPACK_I64_U32(payload)
            deliveries, at = _read_deliverys(payload, 12, deliveries_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(consumer_id, deliveries)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Deliver", payload) from None


class LeaveQueue(RarePacket):
    """Ends a consumer: what it has not acknowledged goes back to the queue, and that does not count as an
    attempt; what has not begun is not marked redelivered either. One that is gone is passed over.

    Attributes:
        consumer_id: The consumer.
    """

    METHOD_ID: ClassVar[int] = 0x55

    __slots__ = ("consumer_id",)

    def __init__(self, consumer_id: int) -> None:
        self.consumer_id = consumer_id


class LeaseLost(Packet):
    """A consumer does not have these messages any more: their time was up, one before them in their
    partition came back, or it has ended. With the code CONSUMER_SLOW it has what it has, and names no
    messages: it should give back, by Nack and not as failed, what it has of partitions and has not begun.

    Attributes:
        consumer_id: The consumer.
        leases: The messages that it had.
        ended: The consumer has ended with all that it had; it may join again, with the code
            CONSUMER_INACTIVE once what made it fail is mended.
        code: Why, as an error code.
        details: For people; not to be parsed.
    """

    METHOD_ID: ClassVar[int] = 0x56

    __slots__ = ("consumer_id", "leases", "ended", "code", "details")

    def __init__(
        self, consumer_id: int, leases: list[LeaseRef], ended: bool, code: int, details: str
    ) -> None:
        self.consumer_id = consumer_id
        self.leases = leases
        self.ended = ended
        self.code = code
        self.details = details

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            leases = self.leases
            leases_count = len(leases)
            leases_parts, leases_size = _write_lease_refs(leases)
            details = self.details.encode()
            details_size = len(details)
            return b"".join(
                (
                    _PACK_U32_U16_U32_I64_U32(
                        24 + leases_size + details_size, 0x56, packet_id, self.consumer_id, leases_count
                    ),
                    *leases_parts,
                    _PACK_U8_U16X2(1 if self.ended else 0, self.code, details_size),
                    details,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("LeaseLost", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            consumer_id, leases_count = _UNPACK_I64_U32(payload)
            leases, at = _read_lease_refs(payload, 12, leases_count)
            ended, code, details_size = _UNPACK_U8_U16X2(payload, at)
            details = str(payload[at + 5 : at + 5 + details_size], "utf-8")
            at += 5 + details_size
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(consumer_id, leases, BOOLS[ended], code, details)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("LeaseLost", payload) from None


class Ack(Packet):
    """The messages are processed: they are done for good.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        leases: The messages.
    """

    METHOD_ID: ClassVar[int] = 0x57

    __slots__ = ("number", "confirmed", "leases")

    def __init__(self, number: int, confirmed: list[int], leases: list[LeaseRef]) -> None:
        self.number = number
        self.confirmed = confirmed
        self.leases = leases

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            confirmed = self.confirmed
            confirmed_count = len(confirmed)
            leases = self.leases
            leases_count = len(leases)
            leases_parts, leases_size = _write_lease_refs(leases)
            return b"".join(
                (
                    _PACK_U32_U16_U32_U64_U32(
                        23 + 8 * confirmed_count + leases_size, 0x57, packet_id, self.number, confirmed_count
                    ),
                    _PACK_U64S[confirmed_count](*confirmed),
                    _PACK_U32(leases_count),
                    *leases_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Ack", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            number, confirmed_count = _UNPACK_U64_U32(payload)
            confirmed = list(_UNPACK_U64S[confirmed_count](payload, 12))
            at = 12 + 8 * confirmed_count
            (leases_count,) = _UNPACK_U32(payload, at)
            leases, at = _read_lease_refs(payload, at + 4, leases_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(number, confirmed, leases)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Ack", payload) from None


class AckResponse(Packet):
    """What became of each message.

    Attributes:
        results: One for each message, in the request's order, related_id being its id: no error, or
            LEASE_LOST.
    """

    METHOD_ID: ClassVar[int] = 0x58

    __slots__ = ("results",)

    def __init__(self, results: list[ElementResult]) -> None:
        self.results = results

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            results = self.results
            results_count = len(results)
            results_parts, results_size = _write_element_results(results)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + results_size, 0x58, packet_id, results_count),
                    *results_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("AckResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (results_count,) = _UNPACK_U32(payload)
            results, at = _read_element_results(payload, 4, results_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(results)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("AckResponse", payload) from None


class Nack(Packet):
    """The messages are not processed: they go back to the queue. With a message of a partition go back
    those of the partition that the consumer was given after it, which LeaseLost names. What failed is given
    to another consumer next, where there is one.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        leases: The messages.
        failed: The attempt failed and counts; otherwise it does not, and a message that has not begun
            comes back as if it had never been given.
        delay_ms: How long they wait before they can be read again, in milliseconds: 0 to 315360000000
            (ten years). Without it after a failed attempt as long as the queue's backoff says, else not at
            all. Tag 1; may be left out.
        reason: Why the attempt failed, 1 to 1000 characters: dead letters and the history have it behind
            `failed: `. Only of an attempt that failed. Tag 2; may be left out.
        rejected: They cannot be processed at all: they go to the dead letters at once, with the reason
            behind `rejected: `. Only with a reason. Tag 3; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x59

    __slots__ = ("number", "confirmed", "leases", "failed", "delay_ms", "reason", "rejected")

    def __init__(
        self,
        number: int,
        confirmed: list[int],
        leases: list[LeaseRef],
        failed: bool,
        *,
        delay_ms: int | None = None,
        reason: str | None = None,
        rejected: bool | None = None,
    ) -> None:
        self.number = number
        self.confirmed = confirmed
        self.leases = leases
        self.failed = failed
        self.delay_ms = delay_ms
        self.reason = reason
        self.rejected = rejected

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            confirmed = self.confirmed
            confirmed_count = len(confirmed)
            leases = self.leases
            leases_count = len(leases)
            leases_parts, leases_size = _write_lease_refs(leases)
            tagged: list[bytes] = []
            delay_ms = self.delay_ms
            if delay_ms is not None:
                tagged.append(write_tagged(1, _PACK_I64(delay_ms)))
            reason = self.reason
            if reason is not None:
                reason_reason = reason.encode()
                reason_reason_size = len(reason_reason)
                tagged.append(
                    write_tagged(
                        2,
                        b"".join(
                            (
                                _PACK_U16(reason_reason_size),
                                reason_reason,
                            )
                        ),
                    )
                )
            rejected = self.rejected
            if rejected is not None:
                tagged.append(write_tagged(3, _PACK_U8(1 if rejected else 0)))
            tagged_part = b"".join(tagged)
            return b"".join(
                (
                    _PACK_U32_U16_U32_U64_U32(
                        24 + 8 * confirmed_count + leases_size + len(tagged_part),
                        0x59,
                        packet_id,
                        self.number,
                        confirmed_count,
                    ),
                    _PACK_U64S[confirmed_count](*confirmed),
                    _PACK_U32(leases_count),
                    *leases_parts,
                    _PACK_U8X2(1 if self.failed else 0, len(tagged)),
                    tagged_part,
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Nack", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            number, confirmed_count = _UNPACK_U64_U32(payload)
            confirmed = list(_UNPACK_U64S[confirmed_count](payload, 12))
            at = 12 + 8 * confirmed_count
            (leases_count,) = _UNPACK_U32(payload, at)
            leases, at = _read_lease_refs(payload, at + 4, leases_count)
            failed, tags = _UNPACK_U8X2(payload, at)
            at += 2
            delay_ms: int | None = None
            reason: str | None = None
            rejected: bool | None = None
            if tags:
                found, at = read_tags(payload, at, tags, _NACK_TAGS)
                content = found.get(1)
                if content is not None:
                    (delay_ms_delay_ms,) = _UNPACK_I64(content)
                    if len(content) != 8:
                        raise ValueError("size")
                    delay_ms = delay_ms_delay_ms
                content = found.get(2)
                if content is not None:
                    (reason_reason_size,) = _UNPACK_U16(content)
                    reason_reason = str(content[2 : 2 + reason_reason_size], "utf-8")
                    place = 2 + reason_reason_size
                    if len(content) != place:
                        raise ValueError("size")
                    reason = reason_reason
                content = found.get(3)
                if content is not None:
                    rejected_rejected = content[0]
                    if len(content) != 1:
                        raise ValueError("size")
                    rejected = BOOLS[rejected_rejected]
            if len(payload) != at:
                raise ValueError("end")
            return cls(
                number, confirmed, leases, BOOLS[failed], delay_ms=delay_ms, reason=reason, rejected=rejected
            )
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Nack", payload) from None


class NackResponse(Packet):
    """What became of each message.

    Attributes:
        results: One for each message, in the request's order, related_id being its id: no error, or
            LEASE_LOST.
    """

    METHOD_ID: ClassVar[int] = 0x5A

    __slots__ = ("results",)

    def __init__(self, results: list[ElementResult]) -> None:
        self.results = results

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            results = self.results
            results_count = len(results)
            results_parts, results_size = _write_element_results(results)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + results_size, 0x5A, packet_id, results_count),
                    *results_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("NackResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (results_count,) = _UNPACK_U32(payload)
            results, at = _read_element_results(payload, 4, results_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(results)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("NackResponse", payload) from None


class Touch(Packet):
    """Begins the time of leases anew. One that an application is acknowledging in a transaction of its
    own, which is not over, is left as it is and answered without an error.

    Attributes:
        leases: The messages.
    """

    METHOD_ID: ClassVar[int] = 0x5B

    __slots__ = ("leases",)

    def __init__(self, leases: list[LeaseRef]) -> None:
        self.leases = leases

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            leases = self.leases
            leases_count = len(leases)
            leases_parts, leases_size = _write_lease_refs(leases)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + leases_size, 0x5B, packet_id, leases_count),
                    *leases_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Touch", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (leases_count,) = _UNPACK_U32(payload)
            leases, at = _read_lease_refs(payload, 4, leases_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(leases)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Touch", payload) from None


class TouchResponse(Packet):
    """What became of each lease.

    Attributes:
        results: One for each message, in the request's order, related_id being its id: no error, or
            LEASE_LOST.
    """

    METHOD_ID: ClassVar[int] = 0x5C

    __slots__ = ("results",)

    def __init__(self, results: list[ElementResult]) -> None:
        self.results = results

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            results = self.results
            results_count = len(results)
            results_parts, results_size = _write_element_results(results)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(11 + results_size, 0x5C, packet_id, results_count),
                    *results_parts,
                    b"\x00",
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("TouchResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (results_count,) = _UNPACK_U32(payload)
            results, at = _read_element_results(payload, 4, results_count)
            tags = payload[at]
            if tags or len(payload) != at + 1:
                check_end(payload, at + 1, tags)
            return cls(results)
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("TouchResponse", payload) from None


class Begin(Packet):
    """Tells that the application is given messages: from now on a lost connection, or a lease that ends,
    counts as a failed attempt. Write it to the connection, with packet id 0, before the application is given
    them, so that it is told even if they kill the process. It is handled at once. A client that never sends
    it has no failed attempts but those of Nack, and a message that kills it comes again for ever. Messages
    that the consumer has no more are passed over.

    Attributes:
        leases: The messages.
        begun: False takes it back: the application was not given them after all.
    """

    METHOD_ID: ClassVar[int] = 0x5D

    __slots__ = ("leases", "begun")

    def __init__(self, leases: list[LeaseRef], begun: bool) -> None:
        self.leases = leases
        self.begun = begun

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            leases = self.leases
            leases_count = len(leases)
            leases_parts, leases_size = _write_lease_refs(leases)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(12 + leases_size, 0x5D, packet_id, leases_count),
                    *leases_parts,
                    _PACK_U8X2(1 if self.begun else 0, 0),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("Begin", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (leases_count,) = _UNPACK_U32(payload)
            leases, at = _read_lease_refs(payload, 4, leases_count)
            begun, tags = _UNPACK_U8X2(payload, at)
            if tags or len(payload) != at + 2:
                check_end(payload, at + 2, tags)
            return cls(leases, BOOLS[begun])
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("Begin", payload) from None


class PurgeQueue(RarePacket):
    """Removes the messages that wait in a queue, for any receiver; what has been handed over is not
    touched.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        queue_id: The queue.
    """

    METHOD_ID: ClassVar[int] = 0x61

    __slots__ = ("number", "confirmed", "queue_id")

    def __init__(self, number: int, confirmed: list[int], queue_id: int) -> None:
        self.number = number
        self.confirmed = confirmed
        self.queue_id = queue_id


class PurgeQueueResponse(RarePacket):
    """What was removed.

    Attributes:
        removed: How many messages.
    """

    METHOD_ID: ClassVar[int] = 0x62

    __slots__ = ("removed",)

    def __init__(self, removed: int) -> None:
        self.removed = removed


class CancelMessage(RarePacket):
    """Removes a message that waits in a queue, at once or for its time, for any receiver. One that a
    client has, or had, is not touched.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        queue_id: The queue.
        message_id: The message.
    """

    METHOD_ID: ClassVar[int] = 0x71

    __slots__ = ("number", "confirmed", "queue_id", "message_id")

    def __init__(self, number: int, confirmed: list[int], queue_id: int, message_id: int) -> None:
        self.number = number
        self.confirmed = confirmed
        self.queue_id = queue_id
        self.message_id = message_id


class CancelMessageResponse(RarePacket):
    """Whether it was cancelled.

    Attributes:
        cancelled: False if it does not wait there: a client has it, it is over, or it never was there.
    """

    METHOD_ID: ClassVar[int] = 0x72

    __slots__ = ("cancelled",)

    def __init__(self, cancelled: bool) -> None:
        self.cancelled = cancelled


class GetQueueStatistics(RarePacket):
    """Counts what a queue holds, and tells what waits for what.

    Attributes:
        queue_id: The queue.
    """

    METHOD_ID: ClassVar[int] = 0x63

    __slots__ = ("queue_id",)

    def __init__(self, queue_id: int) -> None:
        self.queue_id = queue_id


class GetQueueStatisticsResponse(RarePacket):
    """Figures of a queue.

    Attributes:
        depth: Messages that wait.
        directed_depth: Those of them that wait for one receiver.
        ready: Those of them that can be handed over now: without a key, or the first of a key of which
            nothing is leased.
        delayed: Those of them that are delayed and were not handed over yet.
        backing_off: Those of them whose time has not come and that came back from a consumer.
        keyed: Those of them that wait behind another message of their key, which waits or is leased.
        leased: Messages that consumers have.
        dead: Dead letters of the queue.
        put_total: Messages ever put.
        taken_total: Messages ever taken and not given back.
        max_messages: The bound; 0 when unbounded.
        exact: No: the server counts no more messages of a kind one by one (10,000 unless it is set
            otherwise), so `ready`, `delayed`, `backing_off`, `keyed`, `leased`, `dead` and `oldest_age_ms`
            may be higher than is said. The other figures are always exact.
        oldest_age_ms: For how long the oldest of the messages that wait, but not for one receiver, has
            been in the queue, in milliseconds; left out when there is none. Tag 1; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x64

    __slots__ = (
        "depth",
        "directed_depth",
        "ready",
        "delayed",
        "backing_off",
        "keyed",
        "leased",
        "dead",
        "put_total",
        "taken_total",
        "max_messages",
        "exact",
        "oldest_age_ms",
    )

    def __init__(
        self,
        depth: int,
        directed_depth: int,
        ready: int,
        delayed: int,
        backing_off: int,
        keyed: int,
        leased: int,
        dead: int,
        put_total: int,
        taken_total: int,
        max_messages: int,
        exact: bool,
        *,
        oldest_age_ms: int | None = None,
    ) -> None:
        self.depth = depth
        self.directed_depth = directed_depth
        self.ready = ready
        self.delayed = delayed
        self.backing_off = backing_off
        self.keyed = keyed
        self.leased = leased
        self.dead = dead
        self.put_total = put_total
        self.taken_total = taken_total
        self.max_messages = max_messages
        self.exact = exact
        self.oldest_age_ms = oldest_age_ms


class UpdateQueue(RarePacket):
    """Changes settings of a queue; those that are not given stay. It holds for every request that begins
    after the answer.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        queue_id: The queue.
        settings: What is to change; those that are left out stay. 0 takes one away that a queue may be
            without.
    """

    METHOD_ID: ClassVar[int] = 0x65

    __slots__ = ("number", "confirmed", "queue_id", "settings")

    def __init__(self, number: int, confirmed: list[int], queue_id: int, settings: QueueSettings) -> None:
        self.number = number
        self.confirmed = confirmed
        self.queue_id = queue_id
        self.settings = settings


class GetQueueSettings(RarePacket):
    """Asks for the settings of a queue.

    Attributes:
        queue_id: The queue.
    """

    METHOD_ID: ClassVar[int] = 0x67

    __slots__ = ("queue_id",)

    def __init__(self, queue_id: int) -> None:
        self.queue_id = queue_id


class GetQueueSettingsResponse(RarePacket):
    """The settings of a queue that are in effect.

    Attributes:
        settings: All settings; one that the queue is without is left out.
    """

    METHOD_ID: ClassVar[int] = 0x68

    __slots__ = ("settings",)

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings


class ListDeadLetters(RarePacket):
    """Shows the dead letters of a queue, page by page: messages that left it without having been
    processed. The queue may be gone; if there is no dead letter of it either, the first page is refused with
    QUEUE_NOT_EXISTING.

    Attributes:
        queue_id: The queue.
        after_message_id: The last letter of the page before; 0 for the first page.
        limit: The largest number of dead letters in the answer.
    """

    METHOD_ID: ClassVar[int] = 0x6B

    __slots__ = ("queue_id", "after_message_id", "limit")

    def __init__(self, queue_id: int, after_message_id: int, limit: int) -> None:
        self.queue_id = queue_id
        self.after_message_id = after_message_id
        self.limit = limit


class ListDeadLettersResponse(Packet):
    """A page of dead letters.

    Attributes:
        letters: By rising message id.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x6C

    __slots__ = ("letters", "more")

    def __init__(self, letters: list[DeadLetter], more: bool) -> None:
        self.letters = letters
        self.more = more

    def encode(self, packet_id: int) -> bytes:
        """Returns the whole frame; raises InvalidParameterError for a value that does not fit its field."""
        try:
            letters = self.letters
            letters_count = len(letters)
            letters_parts, letters_size = _write_dead_letters(letters)
            return b"".join(
                (
                    _PACK_U32_U16_U32X2(12 + letters_size, 0x6C, packet_id, letters_count),
                    *letters_parts,
                    _PACK_U8X2(1 if self.more else 0, 0),
                )
            )
        except ENCODE_ERRORS as failure:
            raise LAYOUTS.fault_of_packet("ListDeadLettersResponse", self, packet_id, failure) from None

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Reads the payload; raises MalformedPacketError or UnsupportedFieldError."""
        try:
            (letters_count,) = _UNPACK_U32(payload)
            letters, at = _read_dead_letters(payload, 4, letters_count)
            more, tags = _UNPACK_U8X2(payload, at)
            if tags or len(payload) != at + 2:
                check_end(payload, at + 2, tags)
            return cls(letters, BOOLS[more])
        except DECODE_ERRORS:
            raise LAYOUTS.fault_of_payload("ListDeadLettersResponse", payload) from None


class RedriveDeadLetters(RarePacket):
    """Sends dead letters back to their queue, under their old ids, their attempts forgotten. They are
    exempt from the queue's bound, and what has expired does not expire again.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        queue_id: The queue.
        message_ids: Which ones; one that is not there is passed over. Empty for all.
    """

    METHOD_ID: ClassVar[int] = 0x6D

    __slots__ = ("number", "confirmed", "queue_id", "message_ids")

    def __init__(self, number: int, confirmed: list[int], queue_id: int, message_ids: list[int]) -> None:
        self.number = number
        self.confirmed = confirmed
        self.queue_id = queue_id
        self.message_ids = message_ids


class RedriveDeadLettersResponse(RarePacket):
    """What was sent back.

    Attributes:
        redriven: How many messages.
    """

    METHOD_ID: ClassVar[int] = 0x6E

    __slots__ = ("redriven",)

    def __init__(self, redriven: int) -> None:
        self.redriven = redriven


class DeleteDeadLetters(RarePacket):
    """Deletes dead letters for good. The queue may be gone; if there is no dead letter of it either, this
    is refused with QUEUE_NOT_EXISTING.

    Attributes:
        number: The request's number in this session, one more than the last one's.
        confirmed: Numbers of this session whose answers the application has taken.
        queue_id: The queue.
        message_ids: Which ones; one that is not there is passed over. Empty for all.
    """

    METHOD_ID: ClassVar[int] = 0x6F

    __slots__ = ("number", "confirmed", "queue_id", "message_ids")

    def __init__(self, number: int, confirmed: list[int], queue_id: int, message_ids: list[int]) -> None:
        self.number = number
        self.confirmed = confirmed
        self.queue_id = queue_id
        self.message_ids = message_ids


class DeleteDeadLettersResponse(RarePacket):
    """What was deleted.

    Attributes:
        deleted: How many messages.
    """

    METHOD_ID: ClassVar[int] = 0x70

    __slots__ = ("deleted",)

    def __init__(self, deleted: int) -> None:
        self.deleted = deleted


class GetMessageHistory(RarePacket):
    """Asks what is known of a message, of whomever it is: where it is now, and how it and its hand-overs
    ended as far as its queue keeps a history.

    Attributes:
        message_id: The message.
        queue_id: The queue; without it the message is looked for in all. Tag 1; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x69

    __slots__ = ("message_id", "queue_id")

    def __init__(self, message_id: int, *, queue_id: int | None = None) -> None:
        self.message_id = message_id
        self.queue_id = queue_id


class GetMessageHistoryResponse(RarePacket):
    """What is known of a message. When nothing is known, the request is answered with
    MESSAGE_NOT_EXISTING.

    Attributes:
        records: How its hand-overs and it ended, the oldest first, the latest 500 or fewer; then where it
            is now.
    """

    METHOD_ID: ClassVar[int] = 0x6A

    __slots__ = ("records",)

    def __init__(self, records: list[MessageRecord]) -> None:
        self.records = records


class ListQueues(RarePacket):
    """Lists the queues by rising id, page by page, with how many messages wait in each, for people and
    tools. GetQueues costs less.

    Attributes:
        after_queue_id: The last queue received; 0 for the first page.
        limit: The largest number of elements in the answer; the middleware may send fewer.
        like: Only those whose name is like this: `*` stands for any characters, `?` for one. At most
            1,024 characters. Tag 1; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x81

    __slots__ = ("after_queue_id", "limit", "like")

    def __init__(self, after_queue_id: int, limit: int, *, like: str | None = None) -> None:
        self.after_queue_id = after_queue_id
        self.limit = limit
        self.like = like


class ListQueuesResponse(RarePacket):
    """A page of queues.

    Attributes:
        queues: The queues; may be empty.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x82

    __slots__ = ("queues", "more")

    def __init__(self, queues: list[QueueFigures], more: bool) -> None:
        self.queues = queues
        self.more = more


class ListClients(RarePacket):
    """Lists the clients by rising id, page by page, with the process that each was last.

    Attributes:
        after_client_id: The last client received; 0 for the first page.
        limit: The largest number of elements in the answer; the middleware may send fewer.
        like: Only those whose name is like this: `*` stands for any characters, `?` for one. At most
            1,024 characters. Tag 1; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x83

    __slots__ = ("after_client_id", "limit", "like")

    def __init__(self, after_client_id: int, limit: int, *, like: str | None = None) -> None:
        self.after_client_id = after_client_id
        self.limit = limit
        self.like = like


class ListClientsResponse(RarePacket):
    """A page of clients.

    Attributes:
        clients: The clients; may be empty.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x84

    __slots__ = ("clients", "more")

    def __init__(self, clients: list[ClientFigures], more: bool) -> None:
        self.clients = clients
        self.more = more


class ListConsumers(RarePacket):
    """Lists the consumers by rising id, page by page.

    Attributes:
        after_consumer_id: The last consumer received; 0 for the first page.
        limit: The largest number of elements in the answer; the middleware may send fewer.
        queue_id: Only those of this queue. Tag 1; may be left out.
    """

    METHOD_ID: ClassVar[int] = 0x85

    __slots__ = ("after_consumer_id", "limit", "queue_id")

    def __init__(self, after_consumer_id: int, limit: int, *, queue_id: int | None = None) -> None:
        self.after_consumer_id = after_consumer_id
        self.limit = limit
        self.queue_id = queue_id


class ListConsumersResponse(RarePacket):
    """A page of consumers.

    Attributes:
        consumers: The consumers; may be empty.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x86

    __slots__ = ("consumers", "more")

    def __init__(self, consumers: list[ConsumerFigures], more: bool) -> None:
        self.consumers = consumers
        self.more = more


class ListMiddlewares(RarePacket):
    """Lists the running middlewares by rising id, page by page.

    Attributes:
        after_middleware_id: The last middleware received; 0 for the first page.
        limit: The largest number of elements in the answer; the middleware may send fewer.
    """

    METHOD_ID: ClassVar[int] = 0x87

    __slots__ = ("after_middleware_id", "limit")

    def __init__(self, after_middleware_id: int, limit: int) -> None:
        self.after_middleware_id = after_middleware_id
        self.limit = limit


class ListMiddlewaresResponse(RarePacket):
    """A page of middlewares.

    Attributes:
        middlewares: The middlewares; may be empty.
        more: There may be more.
    """

    METHOD_ID: ClassVar[int] = 0x88

    __slots__ = ("middlewares", "more")

    def __init__(self, middlewares: list[MiddlewareFigures], more: bool) -> None:
        self.middlewares = middlewares
        self.more = more


LAYOUTS = Layouts(
    {
        "Queue": Layout(Queue, {"queue_id": "i64", "name": "string"}, {}, True),
        "QueueSettings": Layout(
            QueueSettings,
            {},
            {
                1: ("max_messages", "i64"),
                2: ("dedup_window_ms", "i64"),
                3: ("lease_ms", "i64"),
                4: ("max_attempts", "i64"),
                5: ("backoff_ms", "i64"),
                6: ("backoff_max_ms", "i64"),
                7: ("expires_ms", "i64"),
                8: ("bury_expired", "bool"),
                9: ("dead_letter_queue", "i64"),
                10: ("late_after_ms", "i64"),
                11: ("late_limit", "i64"),
                12: ("late_window_ms", "i64"),
                13: ("fail_limit", "i64"),
                14: ("history", "HistoryMode"),
                15: ("history_days", "u16"),
            },
            True,
        ),
        "Header": Layout(Header, {"name": "string", "value": "string"}, {}, False),
        "NewMessage": Layout(
            NewMessage,
            {"priority": "u8", "receiver_id": "i64", "body": "bytes", "context": "optional<i64>"},
            {
                1: ("dedup_key", "string"),
                2: ("partition_key", "string"),
                3: ("delay_ms", "i64"),
                4: ("expires_ms", "i64"),
                5: ("headers", "list<Header>"),
            },
            True,
        ),
        "QueuedMessage": Layout(QueuedMessage, {"queue_id": "i64", "message": "NewMessage"}, {}, False),
        "Origin": Layout(
            Origin,
            {"queue_id": "i64", "message_id": "i64", "reason": "string", "attempt": "u16", "died_at": "i64"},
            {},
            True,
        ),
        "Message": Layout(
            Message,
            {
                "message_id": "i64",
                "queue_id": "i64",
                "sender_id": "i64",
                "receiver_id": "i64",
                "priority": "u8",
                "time_of_arrival": "i64",
                "attempt": "u16",
                "redelivered": "bool",
                "body": "bytes",
                "context": "optional<i64>",
            },
            {
                1: ("partition_key", "string"),
                2: ("origin", "Origin"),
                3: ("expires_ms", "i64"),
                4: ("headers", "list<Header>"),
            },
            True,
        ),
        "PutResult": Layout(
            PutResult,
            {"queue_id": "i64", "message_id": "i64", "duplicate": "bool", "error": "optional<u16>"},
            {},
            False,
        ),
        "ElementResult": Layout(ElementResult, {"related_id": "i64", "error": "optional<u16>"}, {}, False),
        "OperationResult": Layout(
            OperationResult,
            {"session": "u64", "number": "u64", "method_id": "u16", "results": "list<ElementResult>"},
            {},
            False,
        ),
        "HandOver": Layout(HandOver, {"session": "u64", "number": "u64", "message": "Message"}, {}, False),
        "OperationRef": Layout(OperationRef, {"session": "u64", "number": "u64"}, {}, False),
        "HandOverRef": Layout(
            HandOverRef, {"session": "u64", "number": "u64", "message_id": "i64"}, {}, False
        ),
        "NewTopicMessage": Layout(
            NewTopicMessage, {"body": "bytes"}, {1: ("sequence", "i64"), 2: ("headers", "list<Header>")}, True
        ),
        "TopicPutResult": Layout(
            TopicPutResult, {"number": "i64", "duplicate": "bool", "error": "optional<u16>"}, {}, False
        ),
        "TopicPosition": Layout(
            TopicPosition, {"subscription_id": "i64", "confirmed": "i64", "after": "i64"}, {}, False
        ),
        "TopicMessage": Layout(
            TopicMessage,
            {
                "subscription_id": "i64",
                "number": "i64",
                "sender_id": "i64",
                "time_of_arrival": "i64",
                "body": "bytes",
            },
            {1: ("headers", "list<Header>")},
            True,
        ),
        "SubscriptionName": Layout(
            SubscriptionName, {"subscription_id": "i64", "topic": "string"}, {}, False
        ),
        "TopicFigures": Layout(
            TopicFigures,
            {
                "topic_id": "i64",
                "topic": "string",
                "last_number": "i64",
                "subscribers": "i64",
                "depth": "i64",
            },
            {},
            True,
        ),
        "SubscriptionFigures": Layout(
            SubscriptionFigures,
            {
                "subscription_id": "i64",
                "topic": "string",
                "position": "i64",
                "last_number": "i64",
                "state": "SubscriptionState",
            },
            {1: ("max_behind", "i64"), 2: ("max_age_ms", "i64"), 3: ("drop", "bool")},
            True,
        ),
        "DeadLetter": Layout(
            DeadLetter,
            {"message": "Message", "reason": "string", "died_at": "i64", "client_id": "i64"},
            {},
            True,
        ),
        "LeaseRef": Layout(
            LeaseRef, {"consumer_id": "i64", "lease_id": "i64", "message_id": "i64"}, {}, False
        ),
        "Delivery": Layout(Delivery, {"lease_id": "i64", "message": "Message"}, {}, False),
        "MessageRecord": Layout(
            MessageRecord,
            {
                "state": "MessageState",
                "queue_id": "i64",
                "queue_name": "string",
                "sender_id": "i64",
                "sender_name": "string",
                "receiver_id": "i64",
                "priority": "u8",
                "context": "optional<i64>",
                "time_of_arrival": "i64",
                "attempt": "u16",
                "redelivered": "bool",
            },
            {
                1: ("put_through", "i64"),
                2: ("put_address", "string"),
                3: ("client_id", "i64"),
                4: ("client_name", "string"),
                5: ("session", "i64"),
                6: ("number", "i64"),
                7: ("handed_over_at", "i64"),
                8: ("handed_over_through", "i64"),
                9: ("handed_over_address", "string"),
                10: ("ended_at", "i64"),
                11: ("reason", "string"),
                12: ("consumer_id", "i64"),
                13: ("due_at", "i64"),
                14: ("deadline", "i64"),
                15: ("body", "bytes"),
                16: ("headers", "list<Header>"),
            },
            True,
        ),
        "QueueFigures": Layout(QueueFigures, {"queue_id": "i64", "name": "string", "depth": "i64"}, {}, True),
        "ClientFigures": Layout(
            ClientFigures,
            {
                "client_id": "i64",
                "name": "string",
                "mode": "ClientMode",
                "temporary": "bool",
                "session_at": "i64",
                "unconfirmed": "i64",
                "subscriptions": "i64",
            },
            {1: ("process", "string"), 2: ("library", "string"), 3: ("address", "string")},
            True,
        ),
        "ConsumerFigures": Layout(
            ConsumerFigures,
            {
                "consumer_id": "i64",
                "queue_id": "i64",
                "queue": "string",
                "client_id": "i64",
                "client": "string",
                "middleware_id": "i64",
                "joined_at": "i64",
                "leases": "i64",
                "paused": "bool",
                "slow": "bool",
            },
            {},
            True,
        ),
        "MiddlewareFigures": Layout(
            MiddlewareFigures,
            {
                "middleware_id": "i64",
                "address": "string",
                "version": "string",
                "started_at": "i64",
                "heartbeat_at": "i64",
                "consumers": "i64",
            },
            {},
            True,
        ),
        "Ping": Layout(Ping, {}, {}, True),
        "Pong": Layout(Pong, {}, {}, True),
        "Success": Layout(Success, {}, {}, True),
        "Error": Layout(
            Error,
            {
                "code": "u16",
                "error_class": "ErrorClass",
                "details": "string",
                "related_id": "optional<i64>",
                "retry_after_ms": "optional<u32>",
            },
            {},
            True,
        ),
        "Hello": Layout(
            Hello,
            {
                "magic": "u32",
                "major": "u16",
                "minor": "u16",
                "library": "string",
                "library_version": "string",
                "max_frame": "u32",
                "capabilities": "list<string>",
            },
            {1: ("line_ends", "u32")},
            True,
        ),
        "HelloResponse": Layout(
            HelloResponse,
            {
                "major": "u16",
                "minor": "u16",
                "middleware_id": "i64",
                "server_version": "string",
                "max_frame": "u32",
                "idle_limit_ms": "u32",
                "max_unconfirmed": "u32",
                "mechanisms": "list<string>",
                "addresses": "list<string>",
                "capabilities": "list<string>",
            },
            {
                1: ("max_body", "u32"),
                2: ("max_put_elements", "u32"),
                3: ("max_references", "u32"),
                4: ("incarnation", "string"),
            },
            True,
        ),
        "Authenticate": Layout(Authenticate, {"mechanism": "string", "data": "bytes"}, {}, True),
        "AuthenticateResponse": Layout(AuthenticateResponse, {"data": "bytes", "done": "bool"}, {}, True),
        "Alive": Layout(Alive, {}, {}, True),
        "GoAway": Layout(GoAway, {"reason": "string", "addresses": "list<string>"}, {}, True),
        "Confirm": Layout(
            Confirm,
            {"confirmed": "list<u64>", "earlier": "list<OperationRef>", "hand_overs": "list<HandOverRef>"},
            {},
            True,
        ),
        "CancelRequest": Layout(CancelRequest, {"packet_id": "u32"}, {}, True),
        "CancelRequestResponse": Layout(CancelRequestResponse, {"cancelled": "bool"}, {}, True),
        "RegisterClient": Layout(
            RegisterClient,
            {"client_name": "string", "mode": "ClientMode", "token": "bytes"},
            {1: ("attempt", "u32"), 2: ("temporary", "bool"), 3: ("process", "string")},
            True,
        ),
        "RegisterClientResponse": Layout(
            RegisterClientResponse, {"client_id": "i64", "session": "u64", "incarnation": "string"}, {}, True
        ),
        "IdentifyClient": Layout(
            IdentifyClient,
            {"client_id": "i64", "client_name": "string"},
            {
                1: ("token", "bytes"),
                2: ("resume", "bool"),
                3: ("attempt", "u32"),
                4: ("mode", "ClientMode"),
                5: ("process", "string"),
            },
            True,
        ),
        "IdentifyClientResponse": Layout(
            IdentifyClientResponse,
            {
                "client_id": "i64",
                "client_name": "string",
                "mode": "ClientMode",
                "session": "u64",
                "incarnation": "string",
                "next_number": "u64",
                "operations": "list<OperationResult>",
                "hand_overs": "list<HandOver>",
                "more": "bool",
            },
            {1: ("too_large", "list<HandOverRef>"), 2: ("denied", "list<HandOverRef>")},
            True,
        ),
        "DeleteClient": Layout(DeleteClient, {"number": "u64", "confirmed": "list<u64>"}, {}, True),
        "Release": Layout(Release, {"hand_overs": "list<HandOverRef>"}, {}, True),
        "ListUnconfirmed": Layout(
            ListUnconfirmed, {"after_operation": "OperationRef", "after_hand_over": "HandOverRef"}, {}, True
        ),
        "ListUnconfirmedResponse": Layout(
            ListUnconfirmedResponse,
            {"operations": "list<OperationResult>", "hand_overs": "list<HandOver>", "more": "bool"},
            {1: ("too_large", "list<HandOverRef>"), 2: ("denied", "list<HandOverRef>")},
            True,
        ),
        "CreateQueue": Layout(
            CreateQueue,
            {"number": "u64", "confirmed": "list<u64>", "queue_name": "string", "settings": "QueueSettings"},
            {},
            True,
        ),
        "CreateQueueResponse": Layout(CreateQueueResponse, {"queue": "Queue"}, {}, True),
        "DeleteQueue": Layout(
            DeleteQueue, {"number": "u64", "confirmed": "list<u64>", "queue_id": "i64"}, {}, True
        ),
        "GetQueueId": Layout(GetQueueId, {"queue_name": "string"}, {}, True),
        "GetQueueIdResponse": Layout(GetQueueIdResponse, {"queue_id": "i64"}, {}, True),
        "GetQueueName": Layout(GetQueueName, {"queue_id": "i64"}, {}, True),
        "GetQueueNameResponse": Layout(GetQueueNameResponse, {"queue_name": "string"}, {}, True),
        "GetQueues": Layout(GetQueues, {"after_queue_id": "i64", "limit": "u32"}, {}, True),
        "GetQueuesResponse": Layout(GetQueuesResponse, {"queues": "list<Queue>", "more": "bool"}, {}, True),
        "GetActiveQueues": Layout(GetActiveQueues, {"after_queue_id": "i64", "limit": "u32"}, {}, True),
        "GetActiveQueuesResponse": Layout(
            GetActiveQueuesResponse, {"queues": "list<Queue>", "more": "bool"}, {}, True
        ),
        "GetMessages": Layout(
            GetMessages, {"queue_id": "i64", "after_message_id": "i64", "limit": "u32"}, {}, True
        ),
        "GetMessagesResponse": Layout(
            GetMessagesResponse, {"messages": "list<Message>", "more": "bool"}, {}, True
        ),
        "PutMessage": Layout(
            PutMessage,
            {"number": "u64", "confirmed": "list<u64>", "message": "NewMessage", "queue_ids": "list<i64>"},
            {},
            True,
        ),
        "PutMessageResponse": Layout(PutMessageResponse, {"results": "list<PutResult>"}, {}, True),
        "ReadMessage": Layout(
            ReadMessage,
            {
                "number": "u64",
                "confirmed": "list<u64>",
                "queue_id": "i64",
                "sender_id": "i64",
                "mode": "ReadMode",
                "wait_ms": "u32",
                "max_messages": "u32",
                "max_bytes": "u32",
            },
            {},
            True,
        ),
        "ReadMessageResponse": Layout(ReadMessageResponse, {"messages": "list<Message>"}, {}, True),
        "ReadResponse": Layout(
            ReadResponse,
            {
                "number": "u64",
                "confirmed": "list<u64>",
                "queue_id": "i64",
                "context": "i64",
                "wait_ms": "u32",
            },
            {},
            True,
        ),
        "ReadResponseResponse": Layout(ReadResponseResponse, {"messages": "list<Message>"}, {}, True),
        "PutMessages": Layout(
            PutMessages,
            {"number": "u64", "confirmed": "list<u64>", "messages": "list<QueuedMessage>"},
            {},
            True,
        ),
        "PutMessagesResponse": Layout(PutMessagesResponse, {"results": "list<PutResult>"}, {}, True),
        "Subscribe": Layout(
            Subscribe,
            {"number": "u64", "confirmed": "list<u64>", "topic": "string"},
            {1: ("max_behind", "i64"), 2: ("max_age_ms", "i64"), 3: ("drop", "bool")},
            True,
        ),
        "SubscribeResponse": Layout(SubscribeResponse, {"subscription_id": "i64"}, {}, True),
        "Unsubscribe": Layout(
            Unsubscribe, {"number": "u64", "confirmed": "list<u64>", "topic": "string"}, {}, True
        ),
        "GetFromTopics": Layout(
            GetFromTopics,
            {
                "subscription_id": "i64",
                "topic": "string",
                "positions": "list<TopicPosition>",
                "wait_ms": "u32",
                "max_messages": "u32",
                "max_bytes": "u32",
            },
            {},
            True,
        ),
        "GetFromTopicsResponse": Layout(
            GetFromTopicsResponse,
            {"messages": "list<TopicMessage>", "names": "list<SubscriptionName>"},
            {},
            True,
        ),
        "PutToTopic": Layout(
            PutToTopic,
            {
                "number": "u64",
                "confirmed": "list<u64>",
                "topic": "string",
                "messages": "list<NewTopicMessage>",
            },
            {},
            True,
        ),
        "PutToTopicResponse": Layout(PutToTopicResponse, {"results": "list<TopicPutResult>"}, {}, True),
        "ListTopics": Layout(
            ListTopics, {"after_topic_id": "i64", "limit": "u32"}, {1: ("like", "string")}, True
        ),
        "ListTopicsResponse": Layout(
            ListTopicsResponse, {"topics": "list<TopicFigures>", "more": "bool"}, {}, True
        ),
        "ListSubscriptions": Layout(
            ListSubscriptions, {"after_subscription_id": "i64", "limit": "u32"}, {}, True
        ),
        "ListSubscriptionsResponse": Layout(
            ListSubscriptionsResponse,
            {"subscriptions": "list<SubscriptionFigures>", "more": "bool"},
            {},
            True,
        ),
        "ConfirmPositions": Layout(ConfirmPositions, {"positions": "list<TopicPosition>"}, {}, True),
        "DeleteTopic": Layout(
            DeleteTopic, {"number": "u64", "confirmed": "list<u64>", "topic": "string"}, {}, True
        ),
        "JoinQueue": Layout(
            JoinQueue, {"queue_id": "i64", "credit_messages": "u32", "credit_bytes": "u32"}, {}, True
        ),
        "JoinQueueResponse": Layout(JoinQueueResponse, {"consumer_id": "i64", "lease_ms": "u32"}, {}, True),
        "Credit": Layout(
            Credit, {"consumer_id": "i64", "credit_messages": "u32", "credit_bytes": "u32"}, {}, True
        ),
        "Deliver": Layout(Deliver, {"consumer_id": "i64", "deliveries": "list<Delivery>"}, {}, True),
        "LeaveQueue": Layout(LeaveQueue, {"consumer_id": "i64"}, {}, True),
        "LeaseLost": Layout(
            LeaseLost,
            {
                "consumer_id": "i64",
                "leases": "list<LeaseRef>",
                "ended": "bool",
                "code": "u16",
                "details": "string",
            },
            {},
            True,
        ),
        "Ack": Layout(Ack, {"number": "u64", "confirmed": "list<u64>", "leases": "list<LeaseRef>"}, {}, True),
        "AckResponse": Layout(AckResponse, {"results": "list<ElementResult>"}, {}, True),
        "Nack": Layout(
            Nack,
            {"number": "u64", "confirmed": "list<u64>", "leases": "list<LeaseRef>", "failed": "bool"},
            {1: ("delay_ms", "i64"), 2: ("reason", "string"), 3: ("rejected", "bool")},
            True,
        ),
        "NackResponse": Layout(NackResponse, {"results": "list<ElementResult>"}, {}, True),
        "Touch": Layout(Touch, {"leases": "list<LeaseRef>"}, {}, True),
        "TouchResponse": Layout(TouchResponse, {"results": "list<ElementResult>"}, {}, True),
        "Begin": Layout(Begin, {"leases": "list<LeaseRef>", "begun": "bool"}, {}, True),
        "PurgeQueue": Layout(
            PurgeQueue, {"number": "u64", "confirmed": "list<u64>", "queue_id": "i64"}, {}, True
        ),
        "PurgeQueueResponse": Layout(PurgeQueueResponse, {"removed": "i64"}, {}, True),
        "CancelMessage": Layout(
            CancelMessage,
            {"number": "u64", "confirmed": "list<u64>", "queue_id": "i64", "message_id": "i64"},
            {},
            True,
        ),
        "CancelMessageResponse": Layout(CancelMessageResponse, {"cancelled": "bool"}, {}, True),
        "GetQueueStatistics": Layout(GetQueueStatistics, {"queue_id": "i64"}, {}, True),
        "GetQueueStatisticsResponse": Layout(
            GetQueueStatisticsResponse,
            {
                "depth": "i64",
                "directed_depth": "i64",
                "ready": "i64",
                "delayed": "i64",
                "backing_off": "i64",
                "keyed": "i64",
                "leased": "i64",
                "dead": "i64",
                "put_total": "i64",
                "taken_total": "i64",
                "max_messages": "i64",
                "exact": "bool",
            },
            {1: ("oldest_age_ms", "i64")},
            True,
        ),
        "UpdateQueue": Layout(
            UpdateQueue,
            {"number": "u64", "confirmed": "list<u64>", "queue_id": "i64", "settings": "QueueSettings"},
            {},
            True,
        ),
        "GetQueueSettings": Layout(GetQueueSettings, {"queue_id": "i64"}, {}, True),
        "GetQueueSettingsResponse": Layout(GetQueueSettingsResponse, {"settings": "QueueSettings"}, {}, True),
        "ListDeadLetters": Layout(
            ListDeadLetters, {"queue_id": "i64", "after_message_id": "i64", "limit": "u32"}, {}, True
        ),
        "ListDeadLettersResponse": Layout(
            ListDeadLettersResponse, {"letters": "list<DeadLetter>", "more": "bool"}, {}, True
        ),
        "RedriveDeadLetters": Layout(
            RedriveDeadLetters,
            {"number": "u64", "confirmed": "list<u64>", "queue_id": "i64", "message_ids": "list<i64>"},
            {},
            True,
        ),
        "RedriveDeadLettersResponse": Layout(RedriveDeadLettersResponse, {"redriven": "i64"}, {}, True),
        "DeleteDeadLetters": Layout(
            DeleteDeadLetters,
            {"number": "u64", "confirmed": "list<u64>", "queue_id": "i64", "message_ids": "list<i64>"},
            {},
            True,
        ),
        "DeleteDeadLettersResponse": Layout(DeleteDeadLettersResponse, {"deleted": "i64"}, {}, True),
        "GetMessageHistory": Layout(GetMessageHistory, {"message_id": "i64"}, {1: ("queue_id", "i64")}, True),
        "GetMessageHistoryResponse": Layout(
            GetMessageHistoryResponse, {"records": "list<MessageRecord>"}, {}, True
        ),
        "ListQueues": Layout(
            ListQueues, {"after_queue_id": "i64", "limit": "u32"}, {1: ("like", "string")}, True
        ),
        "ListQueuesResponse": Layout(
            ListQueuesResponse, {"queues": "list<QueueFigures>", "more": "bool"}, {}, True
        ),
        "ListClients": Layout(
            ListClients, {"after_client_id": "i64", "limit": "u32"}, {1: ("like", "string")}, True
        ),
        "ListClientsResponse": Layout(
            ListClientsResponse, {"clients": "list<ClientFigures>", "more": "bool"}, {}, True
        ),
        "ListConsumers": Layout(
            ListConsumers, {"after_consumer_id": "i64", "limit": "u32"}, {1: ("queue_id", "i64")}, True
        ),
        "ListConsumersResponse": Layout(
            ListConsumersResponse, {"consumers": "list<ConsumerFigures>", "more": "bool"}, {}, True
        ),
        "ListMiddlewares": Layout(ListMiddlewares, {"after_middleware_id": "i64", "limit": "u32"}, {}, True),
        "ListMiddlewaresResponse": Layout(
            ListMiddlewaresResponse, {"middlewares": "list<MiddlewareFigures>", "more": "bool"}, {}, True
        ),
    },
    {
        "ClientMode": ClientMode,
        "ReadMode": ReadMode,
        "SubscriptionState": SubscriptionState,
        "HistoryMode": HistoryMode,
        "MessageState": MessageState,
        "ErrorClass": ErrorClass,
    },
)

#: The class of each packet, by its method id.
PACKETS: dict[int, type[Packet]] = {
    0x01: Ping,
    0x02: Pong,
    0x03: Success,
    0x05: Error,
    0x07: Hello,
    0x08: HelloResponse,
    0x09: Authenticate,
    0x0A: AuthenticateResponse,
    0x0E: Alive,
    0x0C: GoAway,
    0x0D: Confirm,
    0x0F: CancelRequest,
    0x10: CancelRequestResponse,
    0x11: RegisterClient,
    0x12: RegisterClientResponse,
    0x13: IdentifyClient,
    0x14: IdentifyClientResponse,
    0x15: DeleteClient,
    0x17: Release,
    0x19: ListUnconfirmed,
    0x1A: ListUnconfirmedResponse,
    0x21: CreateQueue,
    0x22: CreateQueueResponse,
    0x23: DeleteQueue,
    0x25: GetQueueId,
    0x26: GetQueueIdResponse,
    0x27: GetQueueName,
    0x28: GetQueueNameResponse,
    0x29: GetQueues,
    0x2A: GetQueuesResponse,
    0x2B: GetActiveQueues,
    0x2C: GetActiveQueuesResponse,
    0x2D: GetMessages,
    0x2E: GetMessagesResponse,
    0x31: PutMessage,
    0x32: PutMessageResponse,
    0x33: ReadMessage,
    0x34: ReadMessageResponse,
    0x35: ReadResponse,
    0x36: ReadResponseResponse,
    0x37: PutMessages,
    0x38: PutMessagesResponse,
    0x41: Subscribe,
    0x42: SubscribeResponse,
    0x43: Unsubscribe,
    0x45: GetFromTopics,
    0x46: GetFromTopicsResponse,
    0x47: PutToTopic,
    0x48: PutToTopicResponse,
    0x49: ListTopics,
    0x4A: ListTopicsResponse,
    0x4B: ListSubscriptions,
    0x4C: ListSubscriptionsResponse,
    0x4D: ConfirmPositions,
    0x4F: DeleteTopic,
    0x51: JoinQueue,
    0x52: JoinQueueResponse,
    0x53: Credit,
    0x54: Deliver,
    0x55: LeaveQueue,
    0x56: LeaseLost,
    0x57: Ack,
    0x58: AckResponse,
    0x59: Nack,
    0x5A: NackResponse,
    0x5B: Touch,
    0x5C: TouchResponse,
    0x5D: Begin,
    0x61: PurgeQueue,
    0x62: PurgeQueueResponse,
    0x71: CancelMessage,
    0x72: CancelMessageResponse,
    0x63: GetQueueStatistics,
    0x64: GetQueueStatisticsResponse,
    0x65: UpdateQueue,
    0x67: GetQueueSettings,
    0x68: GetQueueSettingsResponse,
    0x6B: ListDeadLetters,
    0x6C: ListDeadLettersResponse,
    0x6D: RedriveDeadLetters,
    0x6E: RedriveDeadLettersResponse,
    0x6F: DeleteDeadLetters,
    0x70: DeleteDeadLettersResponse,
    0x69: GetMessageHistory,
    0x6A: GetMessageHistoryResponse,
    0x81: ListQueues,
    0x82: ListQueuesResponse,
    0x83: ListClients,
    0x84: ListClientsResponse,
    0x85: ListConsumers,
    0x86: ListConsumersResponse,
    0x87: ListMiddlewares,
    0x88: ListMiddlewaresResponse,
}

#: What a middleware must handle, by the method id.
REQUESTS: dict[int, RequestInfo] = {
    0x01: RequestInfo(
        packet=Ping,
        response=Pong,
        allowed=frozenset(
            {
                ConnectionState.AWAITING_LOGIN,
                ConnectionState.AWAITING_IDENTITY,
                ConnectionState.IDENTIFIED,
                ConnectionState.DRAINING,
            }
        ),
        leads_to=None,
        numbered=False,
        mode=None,
    ),
    0x07: RequestInfo(
        packet=Hello,
        response=HelloResponse,
        allowed=frozenset({ConnectionState.AWAITING_HELLO}),
        leads_to=ConnectionState.AWAITING_LOGIN,
        numbered=False,
        mode=None,
    ),
    0x09: RequestInfo(
        packet=Authenticate,
        response=AuthenticateResponse,
        allowed=frozenset({ConnectionState.AWAITING_LOGIN}),
        leads_to=ConnectionState.AWAITING_IDENTITY,
        numbered=False,
        mode=None,
    ),
    0x0D: RequestInfo(
        packet=Confirm,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x0F: RequestInfo(
        packet=CancelRequest,
        response=CancelRequestResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x11: RequestInfo(
        packet=RegisterClient,
        response=RegisterClientResponse,
        allowed=frozenset({ConnectionState.AWAITING_IDENTITY}),
        leads_to=ConnectionState.IDENTIFIED,
        numbered=False,
        mode=None,
    ),
    0x13: RequestInfo(
        packet=IdentifyClient,
        response=IdentifyClientResponse,
        allowed=frozenset({ConnectionState.AWAITING_IDENTITY}),
        leads_to=ConnectionState.IDENTIFIED,
        numbered=False,
        mode=None,
    ),
    0x15: RequestInfo(
        packet=DeleteClient,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x17: RequestInfo(
        packet=Release,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x19: RequestInfo(
        packet=ListUnconfirmed,
        response=ListUnconfirmedResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x21: RequestInfo(
        packet=CreateQueue,
        response=CreateQueueResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x23: RequestInfo(
        packet=DeleteQueue,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x25: RequestInfo(
        packet=GetQueueId,
        response=GetQueueIdResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x27: RequestInfo(
        packet=GetQueueName,
        response=GetQueueNameResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x29: RequestInfo(
        packet=GetQueues,
        response=GetQueuesResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x2B: RequestInfo(
        packet=GetActiveQueues,
        response=GetActiveQueuesResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x2D: RequestInfo(
        packet=GetMessages,
        response=GetMessagesResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x31: RequestInfo(
        packet=PutMessage,
        response=PutMessageResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x33: RequestInfo(
        packet=ReadMessage,
        response=ReadMessageResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.READ_ONLY,
    ),
    0x35: RequestInfo(
        packet=ReadResponse,
        response=ReadResponseResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.READ_ONLY,
    ),
    0x37: RequestInfo(
        packet=PutMessages,
        response=PutMessagesResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x41: RequestInfo(
        packet=Subscribe,
        response=SubscribeResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.READ_ONLY,
    ),
    0x43: RequestInfo(
        packet=Unsubscribe,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.READ_ONLY,
    ),
    0x45: RequestInfo(
        packet=GetFromTopics,
        response=GetFromTopicsResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x47: RequestInfo(
        packet=PutToTopic,
        response=PutToTopicResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x49: RequestInfo(
        packet=ListTopics,
        response=ListTopicsResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x4B: RequestInfo(
        packet=ListSubscriptions,
        response=ListSubscriptionsResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x4D: RequestInfo(
        packet=ConfirmPositions,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x4F: RequestInfo(
        packet=DeleteTopic,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x51: RequestInfo(
        packet=JoinQueue,
        response=JoinQueueResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x53: RequestInfo(
        packet=Credit,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x55: RequestInfo(
        packet=LeaveQueue,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x57: RequestInfo(
        packet=Ack,
        response=AckResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.READ_ONLY,
    ),
    0x59: RequestInfo(
        packet=Nack,
        response=NackResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.READ_ONLY,
    ),
    0x5B: RequestInfo(
        packet=Touch,
        response=TouchResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x5D: RequestInfo(
        packet=Begin,
        response=None,
        allowed=frozenset({ConnectionState.IDENTIFIED, ConnectionState.DRAINING}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x61: RequestInfo(
        packet=PurgeQueue,
        response=PurgeQueueResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x71: RequestInfo(
        packet=CancelMessage,
        response=CancelMessageResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x63: RequestInfo(
        packet=GetQueueStatistics,
        response=GetQueueStatisticsResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x65: RequestInfo(
        packet=UpdateQueue,
        response=Success,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x67: RequestInfo(
        packet=GetQueueSettings,
        response=GetQueueSettingsResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x6B: RequestInfo(
        packet=ListDeadLetters,
        response=ListDeadLettersResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x6D: RequestInfo(
        packet=RedriveDeadLetters,
        response=RedriveDeadLettersResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x6F: RequestInfo(
        packet=DeleteDeadLetters,
        response=DeleteDeadLettersResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=True,
        mode=ClientMode.FULL,
    ),
    0x69: RequestInfo(
        packet=GetMessageHistory,
        response=GetMessageHistoryResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x81: RequestInfo(
        packet=ListQueues,
        response=ListQueuesResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x83: RequestInfo(
        packet=ListClients,
        response=ListClientsResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x85: RequestInfo(
        packet=ListConsumers,
        response=ListConsumersResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
    0x87: RequestInfo(
        packet=ListMiddlewares,
        response=ListMiddlewaresResponse,
        allowed=frozenset({ConnectionState.IDENTIFIED}),
        leads_to=None,
        numbered=False,
        mode=ClientMode.READ_ONLY,
    ),
}
