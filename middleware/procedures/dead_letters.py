"""Listing dead letters, sending them back and deleting them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from telesto.db import calls
from telesto.middleware.common.failures import FailedError, check_error, failure_of
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.message_rows import (
    ANSWER_OVERHEAD_BYTES,
    MESSAGE_OVERHEAD_BYTES,
    message_of,
    page_rows,
)
from telesto.middleware.scheduling.requests import Progress, Request
from telesto.middleware.scheduling.single_request import (
    Call,
    OneCall,
    Reply,
    Row,
    arrivals_of,
    next_part,
    note_part,
    numbered,
)
from telesto.middleware.security.users import Right
from telesto.protocol.errors import ErrorCode
from telesto.protocol.headers import content_bytes
from telesto.protocol.packet import Packet
from telesto.protocol.packets import (
    DeadLetter,
    DeleteDeadLettersResponse,
    ListDeadLettersResponse,
    RedriveDeadLettersResponse,
)

#: Bytes of a letter on the wire beside its message, at most.
_LETTER_BYTES = MESSAGE_OVERHEAD_BYTES + 64 + 8 + 4 * 255


def _bounds(request: Request, settings: ServerSettings) -> tuple[int, int]:
    """Rows and bytes of bodies of a page."""
    frame = request.pipeline.frame_bytes - ANSWER_OVERHEAD_BYTES
    rows = page_rows(request, settings, 2 * _LETTER_BYTES)
    return rows, frame - rows * _LETTER_BYTES


def _list(request: Request, settings: ServerSettings) -> calls.Statement:
    packet, user = request.packet, request.pipeline.user
    rows, size = _bounds(request, settings)
    return calls.list_dead_letters(
        from_queue=packet.queue_id,
        after_message_id=packet.after_message_id,
        max_rows=rows,
        max_bytes=min(size, settings.max_page_bytes),
        asking_client=request.pipeline.client.client_id,
        asking_user=None if user is None else user.user_id,
        # Decided a moment ago, as the request needs one of several rights on the queue.
        directed=(
            user is None
            or user.administrator
            or bool(user.decisions.get(packet.queue_id, 0) & Right.ADMIN.value)
        ),
    )


def _letter(row: Row) -> DeadLetter:
    message = message_of(row)
    message.partition_key = row["partition_key"]
    return DeadLetter(message, row["reason"], row["died_at"], row["client_id"])


def _list_reply(request: Request, rows: list[Row], settings: ServerSettings) -> Reply:
    if rows:
        queue_id = request.packet.queue_id
        check_error(rows[0]["error"], f"the dead letters of queue {queue_id} were not listed", queue_id)
    letters = [_letter(row) for row in rows]
    if letters and content_bytes(letters[0].message) > _bounds(request, settings)[1]:
        message_id = letters[0].message.message_id
        details = f"message {message_id} does not fit the frames that the client accepts"
        raise FailedError(failure_of(ErrorCode.MESSAGE_TOO_LARGE, details, message_id))
    return Reply(ListDeadLettersResponse(letters, bool(letters)))


@dataclass(frozen=True, slots=True)
class SettleLetters:
    """Sends dead letters back, or deletes them, in as many calls as it takes; the last one leaves the record.

    Attributes:
        redriving: whether they are sent back.
        response: makes the answer from their number.
    """

    redriving: bool
    response: Callable[[int], Packet]

    async def __call__(self, call: Call, request: Request, settings: ServerSettings) -> Reply:
        """Settles them."""
        packet = request.packet
        progress = request.pipeline.progress or Progress()
        while True:
            settle = calls.settle_letters_numbered(
                **numbered(request),
                method_id=packet.METHOD_ID,
                queue_id=packet.queue_id,
                letter_ids=packet.message_ids or None,
                redriving=self.redriving,
                max_rows=settings.purge_rows,
                settled_before=progress.done,
            )
            row = await next_part(call, request, settle)
            check_error(row["error"], f"the dead letters of queue {packet.queue_id} stay", packet.queue_id)
            progress.done += row["settled"]
            for key, count in arrivals_of(row["queue_ids"], row["receiver_ids"]).items():
                progress.arrivals[key] = progress.arrivals.get(key, 0) + count
            if not row["more"]:
                return Reply(self.response(progress.done), arrivals=progress.arrivals)
            note_part(request, progress)


LIST_DEAD_LETTERS = OneCall(_list, _list_reply)
REDRIVE_DEAD_LETTERS = SettleLetters(True, RedriveDeadLettersResponse)
DELETE_DEAD_LETTERS = SettleLetters(False, DeleteDeadLettersResponse)
