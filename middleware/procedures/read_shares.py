"""How the bytes that a call should return are shared among its reads."""

from __future__ import annotations

from telesto.middleware.scheduling.requests import Request

#: A read that got too little is granted so many times as much.
_MORE = 4


class AnswerShares:
    """Gives each read an equal share, or its weight if that is more; the heaviest go alone and get all.

    A read whose share was too little for its first message is tried again with more weight, at last in a call
    of its own.
    """

    def __init__(self, max_answer_bytes: int) -> None:
        self._max_answer_bytes = max_answer_bytes

    def granted(self, request: Request, request_count: int) -> int:
        """Returns the bytes that a call of so many requests grants to one."""
        if request.weight >= self._max_answer_bytes:
            return request.pipeline.frame_bytes
        return max(self._max_answer_bytes // request_count, request.weight)

    def tries_again(self, request: Request, request_count: int, own_bytes: int) -> bool:
        """Says whether a read whose first message did not fit may have more than it was granted.

        Its weight rises then. ``own_bytes`` is what it may return at all.
        """
        granted = self.granted(request, request_count)
        if granted >= own_bytes:
            return False
        request.weight = min(_MORE * granted, self._max_answer_bytes)
        return True
