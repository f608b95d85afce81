"""Creating, changing, deleting, finding, listing and browsing queues."""

from __future__ import annotations

from telesto.db import calls
from telesto.middleware.common.failures import FailedError, check_error, failure_of
from telesto.middleware.common.queue_settings import settings_answer, settings_json
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.message_rows import (
    ANSWER_OVERHEAD_BYTES,
    MESSAGE_OVERHEAD_BYTES,
    message_of,
    page_rows,
)
from telesto.middleware.scheduling.requests import Request
from telesto.middleware.scheduling.single_request import OneCall, Reply, Row, numbered
from telesto.middleware.security.users import visible_to
from telesto.protocol.errors import ErrorCode
from telesto.protocol.headers import content_bytes
from telesto.protocol.packets import (
    CreateQueueResponse,
    GetActiveQueuesResponse,
    GetMessagesResponse,
    GetQueueIdResponse,
    GetQueueNameResponse,
    GetQueuesResponse,
    Queue,
    Success,
)

#: Bytes of a queue on the wire at most: a name of 255 characters of four bytes and what surrounds it.
_QUEUE_BYTES = 4 * 255 + 16


def _create(request: Request, _settings: ServerSettings) -> calls.Statement:
    packet = request.packet
    return calls.create_queue_numbered(
        **numbered(request), name=packet.queue_name, settings=settings_json(packet.settings)
    )


def _create_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    name, error = request.packet.queue_name, rows[0]["error"]
    taken = error == ErrorCode.QUEUE_NAME_NOT_UNIQUE
    details = f"a queue named {name!r} exists already" if taken else f"queue {name!r} was not created"
    check_error(error, details, rows[0]["missing_queue"])
    return Reply(CreateQueueResponse(Queue(rows[0]["queue_id"], name)))


def _delete(request: Request, _settings: ServerSettings) -> calls.Statement:
    return calls.delete_queue_numbered(**numbered(request), queue_id=request.packet.queue_id)


def _delete_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    queue_id = request.packet.queue_id
    check_error(rows[0]["error"], f"queue {queue_id} was not deleted", queue_id)
    return Reply(Success(), deleted_queue=queue_id)


def _update(request: Request, _settings: ServerSettings) -> calls.Statement:
    packet = request.packet
    return calls.update_queue_numbered(
        **numbered(request), queue_id=packet.queue_id, settings=settings_json(packet.settings)
    )


def _update_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    packet, error = request.packet, rows[0]["error"]
    details = f"queue {packet.queue_id} was not changed"
    if error == ErrorCode.INVALID_PARAMETER:
        details += f": its dead letters would come back from queue {packet.settings.dead_letter_queue}"
    check_error(error, details, rows[0]["missing_queue"] or packet.queue_id)
    return Reply(Success())


def _settings_of(request: Request, _settings: ServerSettings) -> calls.Statement:
    return calls.get_queue_settings(queue_id=request.packet.queue_id)


def _settings_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    queue_id = request.packet.queue_id
    check_error(rows[0]["error"], f"the settings of queue {queue_id} were not read", queue_id)
    return Reply(settings_answer(rows[0]["settings"]))


def _id(request: Request, _settings: ServerSettings) -> calls.Statement:
    return calls.get_queue_id(name=request.packet.queue_name)


def _id_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    check_error(rows[0]["error"], f"there is no queue {request.packet.queue_name!r}")
    return Reply(GetQueueIdResponse(rows[0]["queue_id"]))


def _name(request: Request, _settings: ServerSettings) -> calls.Statement:
    return calls.get_queue_name(queue_id=request.packet.queue_id)


def _name_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    queue_id = request.packet.queue_id
    check_error(rows[0]["error"], f"queue {queue_id} was not looked for", queue_id)
    return Reply(GetQueueNameResponse(rows[0]["queue_name"]))


def _list(request: Request, settings: ServerSettings) -> calls.Statement:
    rows = page_rows(request, settings, _QUEUE_BYTES)
    return calls.list_queues(
        after_id=request.packet.after_queue_id, max_rows=rows, visible=visible_to(request.pipeline.user)
    )


def _list_reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
    more = len(rows) == page_rows(request, settings, _QUEUE_BYTES)
    return Reply(GetQueuesResponse(_queues(rows), more))


def _active(request: Request, settings: ServerSettings) -> calls.Statement:
    return calls.list_active_queues(
        client_id=request.pipeline.client.client_id,
        after_id=request.packet.after_queue_id,
        max_rows=page_rows(request, settings, _QUEUE_BYTES),
        visible=visible_to(request.pipeline.user),
    )


def _active_reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
    more = len(rows) == page_rows(request, settings, _QUEUE_BYTES)
    return Reply(GetActiveQueuesResponse(_queues(rows), more))


def _queues(rows: list[Row]) -> list[Queue]:
    return [Queue(row["queue_id"], row["name"]) for row in rows]


def _browse_bounds(request: Request, settings: ServerSettings) -> tuple[int, int]:
    """Rows and bytes of bodies of a page."""
    frame = request.pipeline.frame_bytes - ANSWER_OVERHEAD_BYTES
    rows = page_rows(request, settings, 2 * MESSAGE_OVERHEAD_BYTES)
    return rows, frame - rows * MESSAGE_OVERHEAD_BYTES


def _browse(request: Request, settings: ServerSettings) -> calls.Statement:
    packet = request.packet
    rows, size = _browse_bounds(request, settings)
    return calls.browse_messages(
        client_id=request.pipeline.client.client_id,
        from_queue=packet.queue_id,
        after_message_id=packet.after_message_id,
        max_rows=rows,
        max_bytes=min(size, settings.max_page_bytes),
    )


def _browse_reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
    queue_id = request.packet.queue_id
    if not rows:
        return Reply(GetMessagesResponse([], False))
    check_error(rows[0]["error"], f"queue {queue_id} cannot be browsed", queue_id)
    messages = [message_of(row) for row in rows]
    first = messages[0]
    if content_bytes(first) > _browse_bounds(request, settings)[1]:
        details = f"message {first.message_id} does not fit the frames that the client accepts"
        raise FailedError(failure_of(ErrorCode.MESSAGE_TOO_LARGE, details, first.message_id))
    return Reply(GetMessagesResponse(messages, True))


CREATE_QUEUE = OneCall(_create, _create_reply)
DELETE_QUEUE = OneCall(_delete, _delete_reply)
UPDATE_QUEUE = OneCall(_update, _update_reply)
QUEUE_SETTINGS = OneCall(_settings_of, _settings_reply)
GET_QUEUE_ID = OneCall(_id, _id_reply)
GET_QUEUE_NAME = OneCall(_name, _name_reply)
LIST_QUEUES = OneCall(_list, _list_reply)
LIST_ACTIVE_QUEUES = OneCall(_active, _active_reply)
BROWSE_MESSAGES = OneCall(_browse, _browse_reply)
