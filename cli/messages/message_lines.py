"""A message as a line of output."""

from __future__ import annotations

import base64
import json
from dataclasses import fields
from datetime import datetime
from enum import IntEnum
from typing import Any

from telesto.client import Message, Origin, TopicMessage

PREVIEW_LENGTH_MAX = 120
"""Of a body in a list; a terminal that is narrower gets less."""


def moment(time: datetime) -> str:
    """A moment in a list: UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def as_fields(record: Any) -> dict[str, object]:
    """The fields of a dataclass as JSON shows them: an enum by its name, a moment to the microsecond."""
    return {field.name: _plain(getattr(record, field.name)) for field in fields(record)}


def _plain(value: object) -> object:
    if isinstance(value, IntEnum):
        return value.name.lower()
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value


def as_raw_line(message: Message | TopicMessage) -> bytes:
    """The body as it is, and a newline."""
    return message.body + b"\n"


def as_json_line(message: Message) -> bytes:
    """The message as one JSON object, and a newline."""
    return json.dumps(as_dict(message), ensure_ascii=False).encode() + b"\n"


def as_dict(message: Message) -> dict[str, object]:
    """All fields of a message; the body stands in `body`, or in `body_base64` when it is not UTF-8 text."""
    return {
        "message_id": message.message_id,
        "queue_id": message.queue_id,
        "sender_id": message.sender_id,
        "receiver_id": message.receiver_id,
        "correlation_id": message.correlation_id,
        "priority": message.priority,
        "time_of_arrival": message.time_of_arrival.isoformat(timespec="microseconds"),
        "attempt": message.attempt,
        "redelivered": message.redelivered,
        **_partition_key(message),
        **_expires_in(message),
        **headers_field(message.headers),
        **_origin(message.origin),
        **body_fields(message.body),
    }


def preview(body: bytes, length_max: int) -> str:
    """The beginning of a body as text of one line."""
    text = body[: 4 * length_max].decode("utf-8", "replace")
    shown = "".join(character if character.isprintable() else "\N{MIDDLE DOT}" for character in text)
    return shown if len(shown) <= length_max else shown[: length_max - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _expires_in(message: Message) -> dict[str, object]:
    return {} if message.expires_in is None else {"expires_in": round(message.expires_in, 3)}


def _partition_key(message: Message) -> dict[str, object]:
    """The key of a message's partition as a field of JSON; nothing without one."""
    return {} if message.partition_key is None else {"partition_key": message.partition_key}


def headers_field(headers: dict[str, str]) -> dict[str, object]:
    """The headers of a message as a field of JSON; nothing without any."""
    return {"headers": headers} if headers else {}


def headers_preview(headers: dict[str, str], length_max: int) -> str:
    """The beginning of the headers as text of one line."""
    return preview(", ".join(f"{name}={value}" for name, value in headers.items()).encode(), length_max)


def _origin(origin: Origin | None) -> dict[str, object]:
    """Where a dead letter comes from, as a field of JSON; nothing for any other message."""
    if origin is None:
        return {}
    return {
        "origin": {
            "queue_id": origin.queue_id,
            "message_id": origin.message_id,
            "reason": origin.reason,
            "attempt": origin.attempt,
            "died_at": origin.died_at.isoformat(timespec="microseconds"),
        }
    }


def body_fields(body: bytes) -> dict[str, str]:
    """A body as a field of JSON: `body`, or `body_base64` when it is not UTF-8 text."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
