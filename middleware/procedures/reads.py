"""What reads of queues and of topics have in common: their shares of an answer, and empty answers."""

from __future__ import annotations

from telesto.middleware.common.failures import Failure
from telesto.middleware.scheduling.requests import Read, Request, error_frame
from telesto.protocol.packets import (
    GetFromTopics,
    GetFromTopicsResponse,
    ReadMessage,
    ReadMessageResponse,
    ReadResponseResponse,
)

#: A read that got too little is granted this many times as much.
_MORE = 4


class AnswerShares:
    """Divides the bytes that a call should return among its reads.

    Each read gets an equal share, or its weight if that is more. The heaviest go alone and get everything. A
    read whose share was too small for its first message is tried again with more weight, at last in a call of
    its own.
    """

    def __init__(self, max_answer_bytes: int) -> None:
        self._max_answer_bytes = max_answer_bytes

    def granted(self, request: Request, request_count: int) -> int:
        """Returns how many bytes a call with ``request_count`` requests grants to one."""
        if request.weight >= self._max_answer_bytes:
            return request.pipeline.frame_bytes
        return max(self._max_answer_bytes // request_count, request.weight)

    def tries_again(self, request: Request, request_count: int, own_bytes: int) -> bool:
        """Tells whether a read whose first message did not fit may get more than it was granted.

        If so, its weight is raised. ``own_bytes`` is the most that it may return.
        """
        granted = self.granted(request, request_count)
        if granted >= own_bytes:
            return False
        request.weight = min(_MORE * granted, self._max_answer_bytes)
        return True


def empty_frame(read: Read) -> bytes:
    """Encodes the answer of a read that found nothing."""
    if isinstance(read.packet, GetFromTopics):
        return GetFromTopicsResponse([], []).encode(read.packet_id)
    response = ReadMessageResponse if isinstance(read.packet, ReadMessage) else ReadResponseResponse
    return response([]).encode(read.packet_id)


def answer_read(read: Read, failure: Failure | None = None) -> None:
    """Answers a read that took nothing or failed. It leaves no record."""
    if read.wait is not None:
        read.pipeline.waiting.pop(read.packet_id, None)
    read.pipeline.forget_number(getattr(read.packet, "number", 0))
    read.pipeline.send(empty_frame(read) if failure is None else error_frame(read.packet_id, failure))
