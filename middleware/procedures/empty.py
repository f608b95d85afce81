"""The answers of reads that took nothing."""

from __future__ import annotations

from telesto.middleware.common.failures import Failure
from telesto.middleware.scheduling.requests import Read, error_frame
from telesto.protocol.packets import (
    GetFromTopics,
    GetFromTopicsResponse,
    ReadMessage,
    ReadMessageResponse,
    ReadResponseResponse,
)


def empty_frame(read: Read) -> bytes:
    """Encodes the answer of a read that found nothing."""
    if isinstance(read.packet, GetFromTopics):
        return GetFromTopicsResponse([], []).encode(read.packet_id)
    response = ReadMessageResponse if isinstance(read.packet, ReadMessage) else ReadResponseResponse
    return response([]).encode(read.packet_id)


def answer_read(read: Read, failure: Failure | None = None) -> None:
    """Answers a read that took nothing, or failed; nothing of it is recorded."""
    if read.wait is not None:
        read.pipeline.waiting.pop(read.packet_id, None)
    read.pipeline.forget_number(getattr(read.packet, "number", 0))
    read.pipeline.send(empty_frame(read) if failure is None else error_frame(read.packet_id, failure))
