"""Spans of puts, and of what works on messages, in processes that use OpenTelemetry.

A put is a span of kind PRODUCER, which its messages carry in their headers (``traceparent``); a handler of
``run_consumer`` and ``serve_requests`` runs in a span of kind CONSUMER that continues it. Names and
attributes are those of OpenTelemetry's conventions for messaging. Its API is an extra,
``telesto-mq[telemetry]``; a process that has not imported it pays for a look into ``sys.modules`` alone.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from telesto.client.calls.queue_calls import PutManyCall, PutMessageCall
from telesto.client.calls.topic_calls import PutToTopicCall
from telesto.protocol import packets
from telesto.protocol.errors import TelestoError
from telesto.protocol.headers import headers_problem

if TYPE_CHECKING:
    from telesto.client.calls.queue_calls import Call
    from telesto.client.models import Message

ResultT = TypeVar("ResultT")
API = "opentelemetry.trace"


def sending(call: Call[Any]) -> None:
    """Begins the span of a put that is about to be sent, and has its messages carry the trace.

    For a process that has imported OpenTelemetry: every put would pay for a call that looks.
    """
    messages: list[packets.NewMessage] | list[packets.NewTopicMessage]
    if isinstance(call, PutToTopicCall):
        destination, messages = call.topic, call.messages
    elif isinstance(call, PutMessageCall):
        destination, messages = call.destination, [call.message]
    elif isinstance(call, PutManyCall):
        destination, messages = call.destination, [queued.message for queued in call.messages]
    else:
        return
    from opentelemetry import propagate, trace

    attributes: dict[str, str | int] = {"messaging.system": "telesto", "messaging.operation.type": "send"}
    if destination:
        attributes["messaging.destination.name"] = destination
    if len(messages) > 1:
        attributes["messaging.batch.message_count"] = len(messages)
    span = trace.get_tracer("telesto").start_span(
        f"send {destination}" if destination else "send", kind=trace.SpanKind.PRODUCER, attributes=attributes
    )
    if not span.get_span_context().is_valid:
        return  # nothing is traced here
    call.span = span
    carried: dict[str, str] = {}
    propagate.inject(carried, trace.set_span_in_context(span))
    for message in messages:
        own = message.headers or []
        names = {header.name for header in own}
        headers = [*own, *(packets.Header(name, carried[name]) for name in carried if name not in names)]
        if headers_problem(headers) is None:  # a message that is full of headers goes without a trace
            message.headers = headers


def result_of(call: Call[ResultT]) -> ResultT:
    """Returns the result of a put, or raises its error, and ends its span."""
    failed: TelestoError | None = None
    try:
        return call.result()
    except TelestoError as error:
        failed = error
        raise
    finally:
        sent(call, failed)


def sent(call: Call[Any], error: TelestoError | None) -> None:
    """Ends the span of a put, when its caller has the answer or has given up."""
    span, call.span = call.span, None
    if error is not None:
        from opentelemetry import trace

        span.record_exception(error)
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(trace.StatusCode.ERROR, error.details)
    span.end()


def processing(message: Message, queue_name: str) -> AbstractContextManager[object]:
    """Returns the span in which a handler works on a message; it has what the handler raises."""
    if API not in sys.modules:
        return nullcontext()
    from opentelemetry import propagate, trace

    attributes: dict[str, str | int] = {
        "messaging.system": "telesto",
        "messaging.operation.type": "process",
        "messaging.message.id": str(message.message_id),
        "messaging.message.body.size": len(message.body),
        "telesto.message.attempt": message.attempt,
    }
    if queue_name:
        attributes["messaging.destination.name"] = queue_name
    return trace.get_tracer("telesto").start_as_current_span(
        f"process {queue_name}" if queue_name else "process",
        context=propagate.extract(message.headers),
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
    )
