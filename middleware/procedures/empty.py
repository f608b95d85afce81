"""The answer of a read that took nothing."""

from __future__ import annotations

from telesto.middleware.scheduling.requests import Read
from telesto.protocol.packets import (
    GetFromTopics,
    GetFromTopicsResponse,
    ReadMessage,
    ReadMessageResponse,
    ReadResponseResponse,
)


def empty_frame(read: Read) -> bytes:
    """Encodes it."""
    if isinstance(read.packet, GetFromTopics):
        return GetFromTopicsResponse([], []).encode(read.packet_id)
    response = ReadMessageResponse if isinstance(read.packet, ReadMessage) else ReadResponseResponse
    return response([]).encode(read.packet_id)
