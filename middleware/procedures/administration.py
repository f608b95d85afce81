"""Purging a queue, cancelling a message, and counting what it holds."""

from __future__ import annotations

from telesto.db import calls
from telesto.middleware.common.failures import check_error
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.requests import Progress, Request
from telesto.middleware.scheduling.single_request import (
    Call,
    OneCall,
    Reply,
    Row,
    next_part,
    note_part,
    numbered,
)
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import CancelMessageResponse, GetQueueStatisticsResponse, PurgeQueueResponse


async def purge_queue(call: Call, request: Request, settings: ServerSettings) -> Reply:
    """Removes what waits in a queue, in as many calls as it takes, so that no lock is held for long.

    The last call leaves the record.
    """
    queue_id = request.packet.queue_id
    progress = request.pipeline.progress or Progress()
    while True:
        purge = calls.purge_queue_numbered(
            **numbered(request),
            queue_id=queue_id,
            max_rows=settings.purge_rows,
            removed_before=progress.done,
        )
        row = await next_part(call, request, purge)
        check_error(row["error"], f"queue {queue_id} was not purged", queue_id)
        progress.done += row["removed"]
        if not row["more"]:
            return Reply(PurgeQueueResponse(progress.done))
        note_part(request, progress)


def _cancel(request: Request, settings: ServerSettings) -> calls.Statement:
    return calls.cancel_message_numbered(
        **numbered(request),
        queue_id=request.packet.queue_id,
        message_id=request.packet.message_id,
        max_probes=settings.max_history_probes,
    )


def _cancel_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    packet, row = request.packet, rows[0]
    details, related_id = f"no message was cancelled in queue {packet.queue_id}", packet.queue_id
    if row["error"] == ErrorCode.MESSAGE_NOT_EXISTING:
        related_id = packet.message_id
        details = f"queue {packet.queue_id} has too many partitions to find message {related_id} by its id"
    check_error(row["error"], details, related_id)
    return Reply(CancelMessageResponse(row["cancelled"]))


def _statistics(request: Request, settings: ServerSettings) -> calls.Statement:
    return calls.queue_statistics(queue_id=request.packet.queue_id, max_rows=settings.statistics_rows)


def _statistics_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    queue_id, row = request.packet.queue_id, rows[0]
    check_error(row["error"], f"queue {queue_id} was not looked at", queue_id)
    return Reply(
        GetQueueStatisticsResponse(
            depth=row["depth"],
            directed_depth=row["directed_depth"],
            ready=row["ready"],
            delayed=row["delayed"],
            backing_off=row["backing_off"],
            keyed=row["keyed"],
            leased=row["leased"],
            dead=row["dead"],
            put_total=row["put_total"],
            taken_total=row["taken_total"],
            max_messages=row["max_messages"] or 0,
            exact=row["exact"],
            oldest_age_ms=row["oldest_age_ms"],
        )
    )


CANCEL_MESSAGE = OneCall(_cancel, _cancel_reply)
QUEUE_STATISTICS = OneCall(_statistics, _statistics_reply)
