"""GetMessageHistory."""

from __future__ import annotations

from telesto.db import calls
from telesto.middleware.common.failures import FailedError, check_error, failure_of
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.message_rows import ANSWER_OVERHEAD_BYTES, headers_of
from telesto.middleware.scheduling.requests import Request
from telesto.middleware.scheduling.single_request import OneCall, Reply, Row
from telesto.middleware.security.users import Right, User
from telesto.protocol.errors import ErrorCode
from telesto.protocol.headers import headers_bytes
from telesto.protocol.packets import GetMessageHistoryResponse, MessageRecord, MessageState

#: Bytes of a record on the wire beside its body and headers, at most: mostly three names and
#: two addresses.
_RECORD_BYTES = 512 + 3 * 4 * 255


def _bounds(request: Request, settings: ServerSettings) -> tuple[int, int]:
    """How many records, and how many bytes of the body and of headers: half of a frame each."""
    space = request.pipeline.frame_bytes - ANSWER_OVERHEAD_BYTES
    records = min(settings.max_page_rows, max(1, space // (2 * _RECORD_BYTES)))
    return records, min(settings.max_answer_bytes, max(0, space - (records + 1) * _RECORD_BYTES))


def _statement(request: Request, settings: ServerSettings) -> calls.Statement:
    packet, user = request.packet, request.pipeline.user
    records, content_bytes = _bounds(request, settings)
    return calls.get_message_history(
        wanted_id=packet.message_id,
        in_queue=packet.queue_id or 0,
        asking_client=request.pipeline.client.client_id,
        max_records=records,
        max_bytes=content_bytes,
        max_probes=settings.max_history_probes,
        asking_user=None if user is None else user.user_id,
        administered=[] if user is None else ["*"] if user.administrator else list(user.patterns["admin"]),
    )


def _reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
    message_id, first = request.packet.message_id, rows[0]
    details = f"nothing is known of message {message_id}"
    if not first["complete"]:
        details += ", but it may wait where it was not looked for; name its queue"
    check_error(first["error"], details, message_id)
    records = _visible(request.pipeline.user, rows)
    if not records:
        raise FailedError(failure_of(ErrorCode.MESSAGE_NOT_EXISTING, details, message_id))
    # The latest first, if not all of it fits.
    _, left = _bounds(request, settings)
    for record in reversed(records):
        if headers_bytes(record.headers) > left:
            record.headers = None
        left -= headers_bytes(record.headers)
        if record.body is not None and len(record.body) > left:
            record.body = None
        left -= len(record.body or b"")
    return Reply(GetMessageHistoryResponse(records))


def _visible(user: User | None, rows: list[Row]) -> list[MessageRecord]:
    """The records of queues from which a user may read. One that sees all sees the others without content."""
    records = []
    for row in rows:
        record = _record(row)
        if user is not None and not user.rights_on(record.queue_name) & Right.GET:
            if not user.sees_all:
                continue
            record.body = record.headers = None
        records.append(record)
    return records


def _record(row: Row) -> MessageRecord:
    return MessageRecord(
        state=MessageState[row["state"].upper()],
        queue_id=row["queue_id"],
        queue_name=row["queue_name"] or "",
        sender_id=row["sender_id"],
        sender_name=row["sender_name"] or "",
        receiver_id=row["receiver_id"],
        priority=row["priority"],
        context=row["context"],
        time_of_arrival=row["time_of_arrival"],
        attempt=min(row["attempt"], 0xFFFF),
        redelivered=row["redelivered"],
        put_through=row["put_through"],
        put_address=row["put_address"],
        client_id=row["client_id"],
        client_name=row["client_name"],
        session=row["session"],
        number=row["number"],
        handed_over_at=row["handed_over_at"],
        handed_over_through=row["handed_over_through"],
        handed_over_address=row["handed_over_address"],
        ended_at=row["ended_at"],
        reason=row["reason"],
        consumer_id=row["consumer_id"],
        due_at=row["due_at"],
        deadline=row["deadline"],
        body=row["body"],
        headers=headers_of(row["headers"]),
    )


MESSAGE_HISTORY = OneCall(_statement, _reply)
