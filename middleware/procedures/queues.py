"""Creating, changing, deleting, finding, listing and browsing queues."""

from __future__ import annotations

from typing import Any

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
from telesto.protocol.errors import ErrorCode
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


def _create_arguments(request: Request, _settings: ServerSettings) -> tuple[Any, ...]:
    return *numbered(request), request.packet.queue_name, settings_json(request.packet.settings)


def _create_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    name, error = request.packet.queue_name, rows[0]["error"]
    taken = error == ErrorCode.QUEUE_NAME_NOT_UNIQUE
    details = f"a queue named {name!r} exists already" if taken else f"queue {name!r} was not created"
    check_error(error, details, rows[0]["missing_queue"])
    return Reply(CreateQueueResponse(Queue(rows[0]["queue_id"], name)))


def _delete_arguments(request: Request, _settings: ServerSettings) -> tuple[Any, ...]:
    return *numbered(request), request.packet.queue_id


def _delete_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    queue_id = request.packet.queue_id
    check_error(rows[0]["error"], f"queue {queue_id} was not deleted", queue_id)
    return Reply(Success(), deleted_queue=queue_id)


def _update_arguments(request: Request, _settings: ServerSettings) -> tuple[Any, ...]:
    return *numbered(request), request.packet.queue_id, settings_json(request.packet.settings)


def _update_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    packet, error = request.packet, rows[0]["error"]
    details = f"queue {packet.queue_id} was not changed"
    if error == ErrorCode.INVALID_PARAMETER:
        details += f": its dead letters would come back from queue {packet.settings.dead_letter_queue}"
    check_error(error, details, rows[0]["missing_queue"] or packet.queue_id)
    return Reply(Success())


def _settings_arguments(request: Request, _settings: ServerSettings) -> tuple[Any, ...]:
    return (request.packet.queue_id,)


def _settings_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    queue_id = request.packet.queue_id
    check_error(rows[0]["error"], f"the settings of queue {queue_id} were not read", queue_id)
    return Reply(settings_answer(rows[0]["settings"]))


def _id_arguments(request: Request, _settings: ServerSettings) -> tuple[Any, ...]:
    return (request.packet.queue_name,)


def _id_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    check_error(rows[0]["error"], f"there is no queue {request.packet.queue_name!r}")
    return Reply(GetQueueIdResponse(rows[0]["queue_id"]))


def _name_arguments(request: Request, _settings: ServerSettings) -> tuple[Any, ...]:
    return (request.packet.queue_id,)


def _name_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    queue_id = request.packet.queue_id
    check_error(rows[0]["error"], f"queue {queue_id} was not looked for", queue_id)
    return Reply(GetQueueNameResponse(rows[0]["queue_name"]))


def _list_arguments(request: Request, settings: ServerSettings) -> tuple[Any, ...]:
    return request.packet.after_queue_id, page_rows(request, settings, _QUEUE_BYTES)


def _list_reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
    more = len(rows) == page_rows(request, settings, _QUEUE_BYTES)
    return Reply(GetQueuesResponse(_queues(rows), more))


def _active_arguments(request: Request, settings: ServerSettings) -> tuple[Any, ...]:
    return request.pipeline.client.client_id, *_list_arguments(request, settings)


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


def _browse_arguments(request: Request, settings: ServerSettings) -> tuple[Any, ...]:
    packet = request.packet
    rows, size = _browse_bounds(request, settings)
    size = min(size, settings.max_page_bytes)
    return request.pipeline.client.client_id, packet.queue_id, packet.after_message_id, rows, size


def _browse_reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
    queue_id = request.packet.queue_id
    if not rows:
        return Reply(GetMessagesResponse([], False))
    check_error(rows[0]["error"], f"queue {queue_id} cannot be browsed", queue_id)
    messages = [message_of(row) for row in rows]
    first = messages[0]
    if len(first.body) > _browse_bounds(request, settings)[1]:
        details = f"message {first.message_id} does not fit the frames that the client accepts"
        raise FailedError(failure_of(ErrorCode.MESSAGE_TOO_LARGE, details, first.message_id))
    return Reply(GetMessagesResponse(messages, True))


CREATE_QUEUE = OneCall(
    "SELECT * FROM telesto.create_queue_numbered($1, $2, $3, $4, $5, $6, $7)",
    _create_arguments,
    _create_reply,
)
DELETE_QUEUE = OneCall(
    "SELECT * FROM telesto.delete_queue_numbered($1, $2, $3, $4, $5, $6)", _delete_arguments, _delete_reply
)
UPDATE_QUEUE = OneCall(
    "SELECT * FROM telesto.update_queue_numbered($1, $2, $3, $4, $5, $6, $7)",
    _update_arguments,
    _update_reply,
)
QUEUE_SETTINGS = OneCall(
    "SELECT * FROM telesto.get_queue_settings($1)", _settings_arguments, _settings_reply, reads=True
)
GET_QUEUE_ID = OneCall("SELECT * FROM telesto.get_queue_id($1)", _id_arguments, _id_reply, reads=True)
GET_QUEUE_NAME = OneCall("SELECT * FROM telesto.get_queue_name($1)", _name_arguments, _name_reply, reads=True)
LIST_QUEUES = OneCall("SELECT * FROM telesto.list_queues($1, $2)", _list_arguments, _list_reply, reads=True)
LIST_ACTIVE_QUEUES = OneCall(
    "SELECT * FROM telesto.list_active_queues($1, $2, $3)", _active_arguments, _active_reply, reads=True
)
BROWSE_MESSAGES = OneCall(
    "SELECT * FROM telesto.browse_messages($1, $2, $3, $4, $5)", _browse_arguments, _browse_reply, reads=True
)
