"""What of the requests and their answers stands in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from telesto.middleware.common.audit import AuditLog
from telesto.middleware.common.failures import Failure
from telesto.middleware.scheduling.requests import Request
from telesto.middleware.scheduling.single_request import Reply
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode

Details = Callable[[Any], dict[str, Any]]

#: By request: its event, and the details that its packet and its answer have. Puts, reads and answers to
#: messages are not audited.
AUDITED: dict[type[Any], tuple[str, Details, Details]] = {
    packets.RegisterClient: (
        "client_registered",
        lambda packet: _named(packet, "client_name", "temporary", "process") | {"mode": packet.mode.name},
        lambda answer: {"client_id": answer.client_id, "session": answer.session},
    ),
    packets.IdentifyClient: (
        "client_taken_over",
        lambda packet: _named(packet, "client_id", "client_name", "resume", "process"),
        lambda answer: _named(answer, "client_id", "client_name", "session"),
    ),
    packets.DeleteClient: ("client_deleted", lambda packet: {}, lambda answer: {}),
    packets.CreateQueue: (
        "queue_created",
        lambda packet: _named(packet, "queue_name") | _settings(packet),
        lambda answer: {"queue_id": answer.queue.queue_id},
    ),
    packets.UpdateQueue: (
        "queue_changed",
        lambda packet: _named(packet, "queue_id") | _settings(packet),
        lambda answer: {},
    ),
    packets.DeleteQueue: ("queue_deleted", lambda packet: _named(packet, "queue_id"), lambda answer: {}),
    packets.PurgeQueue: (
        "queue_purged",
        lambda packet: _named(packet, "queue_id"),
        lambda answer: _named(answer, "removed"),
    ),
    packets.CancelMessage: (
        "message_cancelled",
        lambda packet: _named(packet, "queue_id", "message_id"),
        lambda answer: _named(answer, "cancelled"),
    ),
    packets.RedriveDeadLetters: (
        "dead_letters_redriven",
        lambda packet: _named(packet, "queue_id") | {"asked": len(packet.message_ids) or "all"},
        lambda answer: _named(answer, "redriven"),
    ),
    packets.DeleteDeadLetters: (
        "dead_letters_deleted",
        lambda packet: _named(packet, "queue_id") | {"asked": len(packet.message_ids) or "all"},
        lambda answer: _named(answer, "deleted"),
    ),
    packets.Subscribe: ("subscribed", lambda packet: _named(packet, "topic"), lambda answer: {}),
    packets.Unsubscribe: ("unsubscribed", lambda packet: _named(packet, "topic"), lambda answer: {}),
    packets.DeleteTopic: ("topic_deleted", lambda packet: _named(packet, "topic"), lambda answer: {}),
}


def audit_done(audit: AuditLog, request: Request, reply: Reply) -> None:
    """Notes that a request was executed."""
    if audit.on and (known := AUDITED.get(type(request.packet))) is not None:
        event, of_packet, of_answer = known
        audit.done(
            event, **(_who(request) | of_packet(request.packet) | of_answer(reply.packet) | reply.audited)
        )


def audit_refused(audit: AuditLog, request: Request, failure: Failure) -> None:
    """Notes that a request was refused, or that nobody knows whether it was executed.

    What a user has no right to is noted of every kind of request.
    """
    if not audit.on:
        return
    packet = request.packet
    known = AUDITED.get(type(packet))
    fields = _who(request) | {"code": failure.code.name, "details": failure.details}
    key = (request.pipeline.address, fields["user"], failure.code)
    if known is None:
        if failure.code is ErrorCode.PERMISSION_DENIED:
            audit.refused("permission_denied", key, **fields, request=type(packet).__name__)
    elif failure.error_class is ErrorClass.IN_DOUBT:
        audit.in_doubt(known[0], **(fields | known[1](packet)))
    else:
        audit.refused(known[0], key, **(fields | known[1](packet)))


def _who(request: Request) -> dict[str, Any]:
    pipeline = request.pipeline
    return {
        "peer": pipeline.peer,
        "library": pipeline.library,
        "user": None if pipeline.user is None else pipeline.user.name,
        "client_id": pipeline.client.client_id or None,
    }


def _named(source: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _settings(packet: Any) -> dict[str, Any]:
    settings = packet.settings
    given = ((name, getattr(settings, name)) for name in settings.__slots__)
    return {"settings": {name: value for name, value in given if value is not None}}
