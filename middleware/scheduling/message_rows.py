"""Messages as the procedures return them."""

from __future__ import annotations

import json
from typing import Any

from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.requests import Request
from telesto.protocol.packets import Header, Message, Origin

#: Bytes of a message on the wire beside its body, its headers and its partition's key, at most.
MESSAGE_OVERHEAD_BYTES = 128
#: Bytes of an answer beside its messages, at most.
ANSWER_OVERHEAD_BYTES = 64


def message_of(row: Any) -> Message:
    """Makes a message from a row that names its columns."""
    return Message(
        message_id=row["message_id"],
        queue_id=row["queue_id"],
        sender_id=row["sender_id"],
        receiver_id=row["receiver_id"],
        priority=row["priority"],
        time_of_arrival=row["time_of_arrival"],
        attempt=min(row["attempt"], 0xFFFF),
        redelivered=row["redelivered"],
        body=row["body"],
        context=row["context"],
        origin=origin_of(row["origin"]),
        headers=headers_of(row["headers"]),
    )


def handed_over(row: Any) -> Message:
    """Makes a message that is handed over from such a row."""
    message = message_of(row)
    message.expires_ms = row["expires_ms"]
    return message


def origin_of(stored: str | None) -> Origin | None:
    """Makes the origin of a dead letter from what the column holds."""
    if stored is None:
        return None
    origin = json.loads(stored)
    return Origin(**{**origin, "attempt": min(origin["attempt"], 0xFFFF)})


def headers_of(stored: str | None) -> list[Header] | None:
    """Makes headers from what the column holds."""
    if stored is None:
        return None
    return [Header(name, value) for name, value in json.loads(stored).items()]


def headers_column(headers: list[Header]) -> str:
    """Makes what the column holds from headers."""
    return json.dumps({header.name: header.value for header in headers})


def page_rows(request: Request, settings: ServerSettings, row_bytes: int) -> int:
    """How many rows of a size fit a page."""
    fitting = (request.pipeline.frame_bytes - ANSWER_OVERHEAD_BYTES) // row_bytes
    limit: int = request.packet.limit
    return max(1, min(limit, settings.max_page_rows, fitting))
