"""Headers of messages: what they may be, and how many bytes they count for.

`telesto.check_headers` and `telesto.headers_bytes` are the same in SQL; clients and middlewares follow this.
"""

from __future__ import annotations

from collections.abc import Sequence

from telesto.protocol.names import control_character
from telesto.protocol.packets import Header, Message, NewMessage, NewTopicMessage, TopicMessage

HEADERS_MAX = 64
NAME_BYTES_MAX = 128
VALUE_BYTES_MAX = 1_024
HEADERS_BYTES_MAX = 8_192
"""Bytes of the names and values of a message's headers together, at most."""


def headers_bytes(headers: Sequence[Header] | None) -> int:
    """How many bytes headers take on the wire at most, which count as bytes of the body."""
    if not headers:
        return 0
    return 16 + sum(4 + len(header.name.encode()) + len(header.value.encode()) for header in headers)


def content_bytes(message: Message | NewMessage | NewTopicMessage | TopicMessage) -> int:
    """How many bytes of body and headers a message has, as limits count them."""
    size = len(message.body)
    return size if message.headers is None else size + headers_bytes(message.headers)


def headers_problem(headers: Sequence[Header]) -> str | None:
    """Says what is wrong with headers; None when nothing is."""
    if len(headers) > HEADERS_MAX:
        return f"{len(headers)} headers, but at most {HEADERS_MAX} are allowed"
    names = set()
    size = 0
    for header in headers:
        name_bytes, value_bytes = len(header.name.encode()), len(header.value.encode())
        if not 1 <= name_bytes <= NAME_BYTES_MAX:
            return (
                f"a name has {name_bytes} bytes, but 1 to {NAME_BYTES_MAX} are allowed: {header.name[:40]!a}"
            )
        if found := control_character(header.name):
            return f"a name must have no control characters, as {found}: {header.name!a}"
        if value_bytes > VALUE_BYTES_MAX:
            return f"{header.name!a} has {value_bytes} bytes, but at most {VALUE_BYTES_MAX} are allowed"
        if "\0" in header.value:
            return f"{header.name!a} has a NUL character"
        if header.name in names:
            return f"{header.name!a} is there twice"
        names.add(header.name)
        size += name_bytes + value_bytes
    if size > HEADERS_BYTES_MAX:
        return f"{size} bytes of names and values, but at most {HEADERS_BYTES_MAX} are allowed"
    return None
