"""What became of puts without a caller, as a state keeps it and as the application learns it.

A state keeps it as the frame of the answer, or of the error, that told it.
"""

from __future__ import annotations

from typing import Any

from telesto.client.calls.queue_calls import Call, PutManyCall, PutMessageCall, headers_of
from telesto.client.calls.state import StoredRequest
from telesto.client.calls.topic_calls import PutToTopicCall
from telesto.client.durable.stored_puts import call_of
from telesto.client.errors import NotDoneError, OutcomeUnknownError
from telesto.client.models import NewMessage, NewTopicMessage, PutResult, RecoveredPut, TopicPutResult
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, TelestoError, exception_for

#: Stands for the errors of the library itself, which have no code.
_NO_CODE = 0xFFFF
_METHOD_ID = slice(4, 6)
_PAYLOAD = slice(10, None)


def outcome_of(call: Call[Any]) -> bytes:
    """Returns the outcome of a put."""
    error = call.error
    if error is None:
        answer: bytes = call.response.encode(0)
        return answer
    code = _NO_CODE if error.code is None else error.code
    error_class = ErrorClass.IN_DOUBT if error.error_class is None else error.error_class
    return packets.Error(code, error_class, error.details, error.related_id, None).encode(0)


def recovered_puts(request: StoredRequest) -> list[RecoveredPut]:
    """Returns what became of each message of a settled put, in each queue."""
    call = call_of(request)
    method_id, payload = int.from_bytes(request.outcome[_METHOD_ID], "big"), request.outcome[_PAYLOAD]
    if method_id == packets.Error.METHOD_ID:
        error = _error(packets.Error.decode(payload), call)
        return [RecoveredPut(*message, None, error=error) for message in _messages(call)]
    call.response = call.response_type.decode(payload)
    return [_recovered(*pair) for pair in zip(_messages(call), call.result(), strict=True)]


_Message = tuple[int | None, str | None, NewMessage | NewTopicMessage]


def _messages(call: Call[Any]) -> list[_Message]:
    """Returns a put's messages, each with its queue or topic, in the order of its results."""
    if isinstance(call, PutMessageCall):
        return [(queue_id, None, _new_message(call.message)) for queue_id in call.queue_ids]
    if isinstance(call, PutManyCall):
        return [(queued.queue_id, None, _new_message(queued.message)) for queued in call.messages]
    assert isinstance(call, PutToTopicCall)
    return [(None, call.topic, _new_topic_message(message)) for message in call.messages]


def _new_message(message: packets.NewMessage) -> NewMessage:
    return NewMessage(
        message.body,
        message.priority,
        message.receiver_id or None,
        message.context,
        message.dedup_key,
        _seconds(message.delay_ms),
        _seconds(message.expires_ms),
        message.partition_key,
        headers_of(message.headers) if message.headers else None,
    )


def _new_topic_message(message: packets.NewTopicMessage) -> NewTopicMessage:
    headers = headers_of(message.headers) if message.headers else None
    return NewTopicMessage(message.body, message.sequence, headers)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _recovered(message: _Message, result: PutResult | TopicPutResult) -> RecoveredPut:
    message_id = result.message_id if isinstance(result, PutResult) else result.number
    return RecoveredPut(*message, message_id, result.duplicate, result.error)


def _error(packet: packets.Error, call: Call[Any]) -> TelestoError:
    if packet.code == _NO_CODE:
        in_doubt = packet.error_class is ErrorClass.IN_DOUBT
        return (OutcomeUnknownError if in_doubt else NotDoneError)(packet.details, method=call.method)
    return exception_for(
        packet.code, packet.error_class, packet.details, related_id=packet.related_id, method=call.method
    )
