"""The application's requests: how each is sent, what its answer means, what a takeover's record of it means.

A call knows nothing of connections and sessions; the session keeps its notes about a call in it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from telesto.client import arguments
from telesto.client.calls.readers import Reader
from telesto.client.models import (
    DeadLetter,
    Duration,
    HandOverId,
    LeaseId,
    Message,
    MessageHistory,
    MessageRecord,
    Origin,
    PutResult,
    QueueStatistics,
    utc,
)
from telesto.client.queue_settings import QueueSettingChanges, QueueSettings
from telesto.protocol import packets
from telesto.protocol.errors import (
    ERRORS,
    ErrorClass,
    ErrorCode,
    InvalidParameterError,
    TelestoError,
    exception_for,
)
from telesto.protocol.packets import ElementResult, Packet, ReadMode
from telesto.protocol.queue_settings import QUEUE_SETTINGS

ResultT = TypeVar("ResultT")

# Where a call is: in line, on its way, answered, or answered but not yet written to the client's state.
WAITING = 0
SENT = 1
DONE = 2
HELD = 3

#: What is said of a queue when a code comes alone.
_OF_QUEUE: dict[int, str] = {
    ErrorCode.QUEUE_NOT_EXISTING: "there is no queue {}",
    ErrorCode.QUEUE_FULL: "queue {} holds as many messages as it may",
}

#: An empty answer to a read that comes no earlier than this before its time is in time, in seconds.
EARLY_MAX = 0.002


class Call(Generic[ResultT]):
    """A request of the application, from the call of a method to its return.

    Attributes:
        method: name of the request's packet.
        numbered: the request carries a number, leaves its result and has to be confirmed.
        wait: how long it may wait at the service in all, in seconds; infinity without limit.
        wait_until: when that waiting ends, by the session's clock.
        order: position among all calls of the client.
        phase: WAITING, SENT, HELD or DONE.
        deadline: when the call fails, by the session's clock.
        try_until: when the try under way fails.
        tries: how often it was sent.
        sent_at, packet_id, session, number, carried: of the try under way, with the confirmations it carried.
        orphaned: the call is over although its request is still under way.
        on_answer: what the session does with the answer, None for the usual: the call is done.
        on_done: takes the call once it is over, for a caller that does not wait for it.
        response, error: the answer.
        failure: why the last try failed.
        waiter: what the shell uses to wake the caller.
        position: where the client's state has the request; 0 for nowhere.
        gated: what the call returns has to be written to the client's state first.
        unattended: it comes from the client's state; no caller waits for it.
        reader: who reads, for a client with a state.
        destination: the name of the queue of a put, where it is known, for traces.
        span: the span of a put that is traced, until its caller has the answer.
    """

    method: ClassVar[str]
    response_type: ClassVar[type[Packet]]
    response_id: ClassVar[int]
    numbered: ClassVar[bool] = False
    #: It need not be recorded when the client asks for speed (delivery="fast").
    may_be_fast: ClassVar[bool] = False
    #: A client with a state writes its intent there before it is sent.
    noted: ClassVar[bool] = False
    #: It answers messages that were pushed, and may be sent while the middleware is about to stop.
    settling: ClassVar[bool] = False
    #: It takes messages.
    taking: ClassVar[bool] = False

    queue_id: int | None = None
    wait: float = 0.0
    wait_until: float = 0.0
    order: int = 0
    phase: int = WAITING
    deadline: float = math.inf
    try_until: float = math.inf
    tries: int = 0
    sent_at: float = 0.0
    packet_id: int = 0
    session: int = 0
    number: int = 0
    carried: list[int] | None = None
    orphaned: bool = False
    on_answer: Callable[[Any], None] | None = None
    on_done: Callable[[Any], None] | None = None
    response: Any = None
    error: TelestoError | None = None
    failure: TelestoError | None = None
    waiter: Any = None
    position: int = 0
    gated: bool = False
    unattended: bool = False
    reader: Reader | None = None
    destination: str = ""
    span: Any = None

    def __init_subclass__(cls, request: type[Packet] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if request is not None:
            info = packets.REQUESTS[request.METHOD_ID]
            assert info.response is not None
            cls.method = request.__name__
            cls.response_type = info.response
            cls.response_id = info.response.METHOD_ID
            cls.numbered = info.numbered

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request. Raises InvalidParameterError for a value that its field cannot hold."""
        raise NotImplementedError

    def result(self) -> ResultT:
        """Returns what the call returns, from the response. Raises the error that the response tells of."""
        raise NotImplementedError

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response out of the results that a takeover lists. Raises the recorded error."""
        self.raise_recorded(results)
        return packets.Success()

    def raise_recorded(self, results: list[ElementResult]) -> None:
        """Raises the recorded error of a request with one result."""
        code = results[0].error if results else None
        if code is not None:
            raise self.refusal(code, self.queue_id, results[0].related_id or self.queue_id)

    def refusal(
        self, code: int, queue_id: int | None, related_id: int | None = None, details: str | None = None
    ) -> TelestoError:
        """Makes the error for a code that comes alone; else the details name the queue, or are those of the
        specification."""
        info = ERRORS.get(code)
        queue = related_id or queue_id
        if details is None and code in _OF_QUEUE and queue is not None:
            details = _OF_QUEUE[code].format(queue)
        elif details is None:
            details = info.doc if info else ""
        error_class = info.error_class if info else ErrorClass.REJECTED
        return exception_for(
            code, error_class, details, method=self.method, queue_id=queue_id, related_id=related_id
        )


class PutMessageCall(Call[ResultT], request=packets.PutMessage):
    """Puts one message into one or several queues."""

    may_be_fast = True
    noted = True

    message: packets.NewMessage
    queue_ids: list[int]

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.PutMessage(number, confirmed, self.message, self.queue_ids).encode(packet_id)

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        return packets.PutMessageResponse(
            [recorded_put(queue_id, result) for queue_id, result in zip(self.queue_ids, results, strict=True)]
        )


class PutCall(PutMessageCall[int]):
    """Puts one message into one queue; returns its id.

    Attributes:
        queue_id: the queue.
        joint: the request of several puts that it travels in; None on its own.
        at: which of the results is its own.
        alone: it must be a request of its own.
    """

    queue_id: int
    joint: Any = None
    at: int = 0
    alone: bool = False

    def __init__(
        self,
        queue_id: int,
        body: object,
        priority: int,
        receiver_id: int | None,
        correlation_id: int | None,
        dedup_key: str | None = None,
        delay: Duration | None = None,
        expires: Duration | None = None,
        partition_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.queue_id = arguments.check_id("queue_id", queue_id)
        self.message = arguments.new_message(
            body, priority, receiver_id, correlation_id, dedup_key, delay, expires, partition_key, headers
        )
        self.queue_ids = [queue_id]

    @property
    def refused(self) -> bool:
        """Tells whether the queue did not take it."""
        return self.response.results[self.at].error is not None

    def result(self) -> int:
        """Returns the message's id. Raises why the queue did not take it."""
        result: packets.PutResult = self.response.results[self.at]
        if result.error is not None:
            raise self.refusal(result.error, result.queue_id)
        return result.message_id


class PutSeveralCall(PutMessageCall[list[PutResult]]):
    """Puts one message into several queues."""

    def __init__(
        self,
        queue_ids: list[int],
        body: object,
        priority: int,
        receiver_id: int | None,
        correlation_id: int | None,
        dedup_key: str | None = None,
        delay: Duration | None = None,
        expires: Duration | None = None,
        partition_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.queue_ids = arguments.check_each_once(queue_ids)
        self.message = arguments.new_message(
            body, priority, receiver_id, correlation_id, dedup_key, delay, expires, partition_key, headers
        )

    def result(self) -> list[PutResult]:
        """Returns what became of the message in each queue."""
        return put_results(self, self.response.results)


class PutManyCall(Call[list[PutResult]], request=packets.PutMessages):
    """Puts several messages in one transaction."""

    may_be_fast = True
    noted = True

    queue_id: int

    def __init__(self, queue_id: int, messages: list[packets.QueuedMessage]) -> None:
        self.queue_id = queue_id
        self.messages = messages

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.PutMessages(number, confirmed, self.messages).encode(packet_id)

    def result(self) -> list[PutResult]:
        """Returns what became of each message."""
        return put_results(self, self.response.results)

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        return packets.PutMessagesResponse(
            [
                recorded_put(message.queue_id, result)
                for message, result in zip(self.messages, results, strict=True)
            ]
        )


def recorded_put(queue_id: int, result: ElementResult) -> packets.PutResult:
    """Makes the result of a put from what was recorded, where a negative id stands for a duplicate."""
    return packets.PutResult(queue_id, abs(result.related_id), result.related_id < 0, result.error)


def queue_was_full(call: Call[Any]) -> bool:
    """Tells whether a put was answered, and a queue did not take it or a part of it."""
    if call.error is not None:
        return False
    if type(call) is PutCall:
        return call.refused
    if isinstance(call, (PutSeveralCall, PutManyCall)):
        return any(result.error is not None for result in call.response.results)
    return False


def put_results(call: Call[Any], results: list[packets.PutResult]) -> list[PutResult]:
    """Returns a put's results as the application sees them."""
    return [
        PutResult(result.queue_id, result.message_id, duplicate=result.duplicate)
        if result.error is None
        else PutResult(result.queue_id, None, call.refusal(result.error, result.queue_id))
        for result in results
    ]


class TakingCall(Call[ResultT]):
    """A read; it may wait at the server until a message comes or the time is up.

    Attributes:
        mode, max_messages, max_bytes: which of the messages that match, and how many; 0 bytes for any number.
        messages: what it took.
        from_recovered: they were recovered, not answered to this request.
    """

    may_be_fast = True
    taking = True

    queue_id: int
    mode: ReadMode
    max_messages: int
    max_bytes: int
    messages: list[Message]
    from_recovered: bool = False

    def matches(self, message: Message) -> bool:
        """Tells whether the read might have taken the message, were it in its queue."""
        raise NotImplementedError

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Raises the recorded error; a read without one leaves hand-overs, not results."""
        self.raise_recorded(results)
        return self.response_type([])  # type: ignore[call-arg]

    def answered(self, messages: list[packets.Message]) -> list[Message]:
        """Returns the answer's messages as the application sees them."""
        session, number = self.session, self.number
        return [message_of(message, HandOverId(session, number, message.message_id)) for message in messages]


class ReadCall(TakingCall[list[Message]], request=packets.ReadMessage):
    """Takes messages from a queue."""

    def __init__(
        self,
        queue_id: int,
        sender_id: int | None,
        mode: ReadMode,
        timeout: Duration | None,
        max_messages: int = 1,
        max_bytes: int | None = None,
    ) -> None:
        self.queue_id = arguments.check_id("queue_id", queue_id)
        self.sender_id = arguments.check_optional_id("sender_id", sender_id)
        if not isinstance(mode, ReadMode):
            raise TypeError(f"mode must be a ReadMode, not {type(mode).__name__}")
        self.mode = mode
        self.wait = arguments.check_timeout(timeout)
        self.max_messages = arguments.check_count("max_messages", max_messages)
        self.max_bytes = 0 if max_bytes is None else arguments.check_count("max_bytes", max_bytes)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request, with the time that is left to wait."""
        wait_ms = arguments.wait_ms(self.wait_until - now) if self.wait else 0
        return packets.ReadMessage(
            number,
            confirmed,
            self.queue_id,
            self.sender_id,
            self.mode,
            wait_ms,
            self.max_messages,
            self.max_bytes,
        ).encode(packet_id)

    def result(self) -> list[Message]:
        """Returns the messages."""
        return self.messages

    def matches(self, message: Message) -> bool:
        """Tells whether the message is of the sender asked for."""
        return self.sender_id in (0, message.sender_id) and self.queue_id == message.queue_id


class ReadResponseCall(TakingCall[list[Message]], request=packets.ReadResponse):
    """Takes the response to a request."""

    max_messages = 1
    max_bytes = 0
    mode = ReadMode.TIME

    def __init__(self, queue_id: int, correlation_id: int, timeout: Duration | None) -> None:
        self.queue_id = arguments.check_id("queue_id", queue_id)
        self.correlation_id = arguments.check_correlation_id(correlation_id)
        self.wait = arguments.check_timeout(timeout)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request, with the time that is left to wait."""
        wait_ms = arguments.wait_ms(self.wait_until - now) if self.wait else 0
        return packets.ReadResponse(number, confirmed, self.queue_id, self.correlation_id, wait_ms).encode(
            packet_id
        )

    def result(self) -> list[Message]:
        """Returns the response, if any."""
        return self.messages

    def matches(self, message: Message) -> bool:
        """Tells whether the message is the response asked for."""
        return (
            message.correlation_id == self.correlation_id
            and message.receiver_id is not None
            and self.queue_id == message.queue_id
        )


def message_of(
    message: packets.Message, hand_over: HandOverId | None = None, lease: LeaseId | None = None
) -> Message:
    """Returns a message as the application sees it: of a read, under a lease, or only looked at."""
    headers, life_ms = message.headers, message.expires_ms
    # Each message comes through here, and arguments by name cost more than by place.
    return Message(
        message.message_id,
        message.queue_id,
        message.sender_id,
        message.receiver_id or None,
        message.context,
        message.priority,
        message.time_of_arrival,
        message.attempt,
        message.redelivered,
        message.body,
        hand_over,
        lease,
        message.partition_key,
        None if message.origin is None else _origin(message.origin),
        None if life_ms is None else time.monotonic() + life_ms / 1000,
        {} if headers is None else headers_of(headers),
    )


def headers_of(headers: Iterable[packets.Header]) -> dict[str, str]:
    """Returns headers as the application sees them."""
    return {header.name: header.value for header in headers}


def _origin(origin: packets.Origin) -> Origin:
    return Origin(origin.queue_id, origin.message_id, origin.reason, origin.attempt, utc(origin.died_at))


class CreateQueueCall(Call[packets.Queue], request=packets.CreateQueue):
    """Creates a queue."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name = arguments.check_name("name", name)
        self.settings = arguments.wire_settings(settings, without=None)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.CreateQueue(number, confirmed, self.name, self.settings).encode(packet_id)

    def result(self) -> packets.Queue:
        """Returns the new queue's id and name."""
        queue: packets.Queue = self.response.queue
        return queue

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        self.raise_recorded(results)
        return packets.CreateQueueResponse(packets.Queue(results[0].related_id, self.name))


class UpdateQueueCall(Call[None], request=packets.UpdateQueue):
    """Changes settings of a queue."""

    def __init__(self, queue_id: int, settings: Mapping[str, Any]) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)
        if not settings:
            raise InvalidParameterError("no setting to change is given; help(QueueSettings) explains them")
        self.settings = arguments.wire_settings(settings, without=0)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.UpdateQueue(number, confirmed, self.queue_id, self.settings).encode(packet_id)

    def result(self) -> None:
        """Returns nothing."""


class QueueSettingsCall(Call[QueueSettings], request=packets.GetQueueSettings):
    """Asks for the settings of a queue."""

    def __init__(self, queue_id: int) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.GetQueueSettings(self.queue_id).encode(packet_id)

    def result(self) -> QueueSettings:
        """Returns the settings."""
        found: QueueSettingChanges = {}
        for setting in QUEUE_SETTINGS.values():
            value = getattr(self.response.settings, setting.name)
            if value is not None:  # a service that does not know a setting yet has it as usual
                found[setting.client_name] = value / 1000 if setting.unit == "ms" else value  # type: ignore[literal-required]
        return QueueSettings(**found)


class DeleteQueueCall(Call[None], request=packets.DeleteQueue):
    """Deletes a queue."""

    def __init__(self, queue_id: int) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.DeleteQueue(number, confirmed, self.queue_id).encode(packet_id)

    def result(self) -> None:
        """Returns nothing."""


class PurgeQueueCall(Call[int], request=packets.PurgeQueue):
    """Removes the messages that wait in a queue; returns how many."""

    def __init__(self, queue_id: int) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.PurgeQueue(number, confirmed, self.queue_id).encode(packet_id)

    def result(self) -> int:
        """Returns how many messages were removed."""
        removed: int = self.response.removed
        return removed

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        self.raise_recorded(results)
        return packets.PurgeQueueResponse(results[0].related_id)


class CancelMessageCall(Call[bool], request=packets.CancelMessage):
    """Removes a message that waits in a queue; tells whether it was there."""

    def __init__(self, queue_id: int, message_id: int) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)
        self.message_id = arguments.check_id("message_id", message_id)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.CancelMessage(number, confirmed, self.queue_id, self.message_id).encode(packet_id)

    def result(self) -> bool:
        """Returns whether the message was cancelled."""
        cancelled: bool = self.response.cancelled
        return cancelled

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        self.raise_recorded(results)
        return packets.CancelMessageResponse(results[0].related_id == 1)


class DeleteClientCall(Call[None], request=packets.DeleteClient):
    """Deletes the client of the session."""

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.DeleteClient(number, confirmed).encode(packet_id)

    def result(self) -> None:
        """Returns nothing."""


class GetQueueIdCall(Call[int], request=packets.GetQueueId):
    """Finds a queue by its name."""

    def __init__(self, name: str) -> None:
        self.name = arguments.check_name("name", name)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.GetQueueId(self.name).encode(packet_id)

    def result(self) -> int:
        """Returns the queue's id."""
        queue_id: int = self.response.queue_id
        return queue_id


class GetQueueNameCall(Call[str], request=packets.GetQueueName):
    """Finds a queue by its id."""

    def __init__(self, queue_id: int) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.GetQueueName(self.queue_id).encode(packet_id)

    def result(self) -> str:
        """Returns the queue's name."""
        name: str = self.response.queue_name
        return name


class QueuesCall(Call[tuple[list[packets.Queue], bool]]):
    """Asks for a page of queues; returns it and whether there is more."""

    def __init__(self, after_queue_id: int, limit: int) -> None:
        self.after_queue_id = after_queue_id
        self.limit = limit

    def result(self) -> tuple[list[packets.Queue], bool]:
        """Returns the page and whether there is more."""
        queues: list[packets.Queue] = self.response.queues
        return queues, bool(queues) and self.response.more


class GetQueuesCall(QueuesCall, request=packets.GetQueues):
    """Lists the queues."""

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.GetQueues(self.after_queue_id, self.limit).encode(packet_id)


class GetActiveQueuesCall(QueuesCall, request=packets.GetActiveQueues):
    """Lists the queues that hold a message for this client."""

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.GetActiveQueues(self.after_queue_id, self.limit).encode(packet_id)


class BrowseCall(Call[tuple[list[Message], bool]], request=packets.GetMessages):
    """Asks for a page of a queue's messages; returns it and whether there is more."""

    def __init__(self, queue_id: int, after_message_id: int, limit: int) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)
        self.after_message_id = arguments.check_after_id("after_message_id", after_message_id)
        self.limit = limit

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.GetMessages(self.queue_id, self.after_message_id, self.limit).encode(packet_id)

    def result(self) -> tuple[list[Message], bool]:
        """Returns the page and whether there is more."""
        messages = [message_of(message) for message in self.response.messages]
        return messages, bool(messages) and self.response.more


class StatisticsCall(Call[QueueStatistics], request=packets.GetQueueStatistics):
    """Counts what a queue holds."""

    def __init__(self, queue_id: int) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.GetQueueStatistics(self.queue_id).encode(packet_id)

    def result(self) -> QueueStatistics:
        """Returns the figures."""
        figures: packets.GetQueueStatisticsResponse = self.response
        return QueueStatistics(
            self.queue_id,
            figures.depth,
            figures.directed_depth,
            figures.ready,
            figures.delayed,
            figures.backing_off,
            figures.keyed,
            figures.leased,
            figures.dead,
            figures.put_total,
            figures.taken_total,
            figures.max_messages or None,
            None if figures.oldest_age_ms is None else figures.oldest_age_ms / 1000,
            figures.exact,
        )


class DeadLettersCall(Call[tuple[list[DeadLetter], bool]], request=packets.ListDeadLetters):
    """Asks for a page of a queue's dead letters; returns it and whether there is more."""

    def __init__(self, queue_id: int, after_message_id: int, limit: int) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)
        self.after_message_id = arguments.check_after_id("after_message_id", after_message_id)
        self.limit = limit

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.ListDeadLetters(self.queue_id, self.after_message_id, self.limit).encode(packet_id)

    def result(self) -> tuple[list[DeadLetter], bool]:
        """Returns the page and whether there is more."""
        letters = [
            DeadLetter(
                message_of(letter.message), letter.reason, utc(letter.died_at), letter.client_id or None
            )
            for letter in self.response.letters
        ]
        return letters, bool(letters) and self.response.more


class SettleLettersCall(Call[int]):
    """Sends dead letters back or deletes them; returns how many."""

    def __init__(self, queue_id: int, message_ids: Collection[int] | None) -> None:
        self.queue_id: int = arguments.check_id("queue_id", queue_id)
        self.message_ids = arguments.check_letter_ids(message_ids)


class RedriveCall(SettleLettersCall, request=packets.RedriveDeadLetters):
    """Sends dead letters back to their queue; returns how many."""

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        packet = packets.RedriveDeadLetters(number, confirmed, self.queue_id, self.message_ids)
        return packet.encode(packet_id)

    def result(self) -> int:
        """Returns how many were sent back."""
        redriven: int = self.response.redriven
        return redriven

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        self.raise_recorded(results)
        return packets.RedriveDeadLettersResponse(results[0].related_id)


class DeleteLettersCall(SettleLettersCall, request=packets.DeleteDeadLetters):
    """Deletes dead letters; returns how many."""

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        packet = packets.DeleteDeadLetters(number, confirmed, self.queue_id, self.message_ids)
        return packet.encode(packet_id)

    def result(self) -> int:
        """Returns how many were deleted."""
        deleted: int = self.response.deleted
        return deleted

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        self.raise_recorded(results)
        return packets.DeleteDeadLettersResponse(results[0].related_id)


class MessageHistoryCall(Call[MessageHistory], request=packets.GetMessageHistory):
    """Asks what is known of a message."""

    def __init__(self, message_id: int, queue_id: int | None) -> None:
        self.message_id = arguments.check_id("message_id", message_id)
        self.queue_id = None if queue_id is None else arguments.check_id("queue_id", queue_id)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.GetMessageHistory(self.message_id, queue_id=self.queue_id).encode(packet_id)

    def result(self) -> MessageHistory:
        """Returns the records."""
        return MessageHistory(self.message_id, [record(each) for each in self.response.records])


def record(given: packets.MessageRecord) -> MessageRecord:
    """Returns what is known of a message as the application sees it."""
    return MessageRecord(
        state=given.state,
        queue_id=given.queue_id,
        queue_name=given.queue_name or None,
        sender_id=given.sender_id,
        sender_name=given.sender_name or None,
        receiver_id=given.receiver_id or None,
        priority=given.priority,
        correlation_id=given.context,
        put_at=utc(given.time_of_arrival),
        put_through=given.put_through,
        put_address=given.put_address,
        attempt=given.attempt,
        redelivered=given.redelivered,
        client_id=given.client_id,
        client_name=given.client_name,
        session=given.session,
        number=given.number if given.consumer_id is None else None,
        consumer_id=given.consumer_id,
        lease_id=None if given.consumer_id is None else given.number,
        handed_over_at=_utc_or_none(given.handed_over_at),
        handed_over_through=given.handed_over_through,
        handed_over_address=given.handed_over_address,
        due_at=_utc_or_none(given.due_at),
        deadline=_utc_or_none(given.deadline),
        ended_at=_utc_or_none(given.ended_at),
        reason=given.reason,
        body=given.body,
        headers=headers_of(given.headers or ()),
    )


def _utc_or_none(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else utc(microseconds)


class ReleaseCall(Call[int]):
    """Waits until messages are back in their queues; returns how many."""

    method = packets.Release.__name__

    def __init__(self, hand_overs: Collection[HandOverId]) -> None:
        self.count = len(hand_overs)
        self.remaining = set(hand_overs)

    def result(self) -> int:
        """Returns how many messages were given back."""
        return self.count


class ConfirmCall(Call[None]):
    """Waits until it is durable what the application needs no more."""

    method = packets.Confirm.__name__

    def result(self) -> None:
        """Returns nothing."""


class SettledCall(Call[None]):
    """Waits until it is known what became of the requests that nobody waits for."""

    method = "RecoveredPuts"

    def result(self) -> None:
        """Returns nothing."""


class PingCall(Call[float], request=packets.Ping):
    """Asks for a sign of life; returns the seconds that it took."""

    answered_at: float = 0.0

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.Ping().encode(packet_id)

    def result(self) -> float:
        """Returns how long the answer took, in seconds."""
        return self.answered_at - self.sent_at
