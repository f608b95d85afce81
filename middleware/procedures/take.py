"""ReadMessage and ReadResponse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from telesto.db import calls
from telesto.middleware.common.failures import BUSY, failure_of, no_queue
from telesto.middleware.common.peers import Peers
from telesto.middleware.procedures.reads import AnswerShares
from telesto.middleware.scheduling.message_rows import (
    ANSWER_OVERHEAD_BYTES,
    MESSAGE_OVERHEAD_BYTES,
    headers_of,
    origin_of,
)
from telesto.middleware.scheduling.requests import (
    Confirmed,
    Mark,
    Outcome,
    Read,
    Request,
    Results,
    confirmed_of,
)
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import Message, ReadMessage, ReadMessageResponse, ReadMode, ReadResponseResponse

#: Where columns of telesto.taken_message are, from which rows are read by place.
_MESSAGE_AT = 3
_RECEIVER_AT = 6
_BODY_AT = 12


class _Common(Confirmed):
    """The arguments of take_batch, which take_selected_batch has, too."""

    client_ids: list[int]
    sessions: list[int]
    numbers: list[int]
    queue_ids: list[int]
    max_messages: list[int]
    max_bytes: list[int]
    middleware_id: int


class TakeGroup:
    """Gathers reads by priority of messages of any sender."""

    stores = False
    moves = True

    def __init__(
        self,
        max_messages: int,
        max_answer_bytes: int,
        locked_answer_bytes: int,
        light_bytes: int,
        peers: Peers,
    ) -> None:
        """Bodies up to ``light_bytes`` do not count as large. ``peers`` has the id of this middleware."""
        self._max_messages = max_messages
        self._locked_answer_bytes = locked_answer_bytes
        self._large_shares = AnswerShares(max_answer_bytes)
        self._small_shares = AnswerShares(min(max_answer_bytes, locked_answer_bytes or max_answer_bytes))
        self._light_bytes = light_bytes
        self._peers = peers

    def is_large(self, requests: Sequence[Request]) -> bool:
        """Tells whether the expected answer is too large to be sent while the queues are locked."""
        if not self._locked_answer_bytes:
            return False
        expected = 0
        for request in requests:
            packet = request.packet
            if type(packet) is not ReadMessage or packet.max_messages == 1:
                expected += request.weight
            else:
                expected += request.weight * min(packet.max_messages, self._max_messages)
        return expected >= self._locked_answer_bytes

    def statement(self, requests: Sequence[Request]) -> calls.Statement:
        """Makes the arrays: per request, per confirmed number."""
        return calls.take_batch(**self._common(requests))

    def _common(self, requests: Sequence[Request]) -> _Common:
        """The arguments that all reads have.

        A read's share of the call's bytes may be less than it asks for; if that is too little for its first
        message, it is tried again with more weight, at last in a call of its own.
        """
        shares = self._shares(requests)
        bounds = [self._bounds(request, shares, len(requests)) for request in requests]
        packets = [request.packet for request in requests]
        clients = [request.pipeline.client for request in requests]
        return {
            "client_ids": [client.client_id for client in clients],
            "sessions": [client.session for client in clients],
            "numbers": [packet.number for packet in packets],
            "queue_ids": [packet.queue_id for packet in packets],
            "max_messages": [messages for messages, _ in bounds],
            "max_bytes": [size for _, size in bounds],
            "middleware_id": self._peers.middleware_id,
            **confirmed_of(requests),
        }

    def results(self, requests: Sequence[Request], rows: Sequence[Any]) -> Results:
        """Makes the answers from the rows of messages and errors."""
        taken: dict[int, list[Any]] = {}
        for row in rows:
            taken.setdefault(row[0], []).append(row)
        results = Results()
        shares = self._shares(requests)
        for index, request in enumerate(requests, 1):
            of_request = taken.get(index)
            if of_request is None:
                results.outcomes.append(Mark.NOTHING)
            elif of_request[0][1] is None:
                results.outcomes.append(_answer(request, of_request))
                if len(of_request) > 1 or cast(Read, request).wait is not None:
                    results.handed.append((request, [row[_RECEIVER_AT] for row in of_request]))
                size = len(of_request[0][_BODY_AT])
                if size > self._light_bytes:
                    results.heavy[request.packet.queue_id] = size
            else:
                self._settle_error(results, request, of_request[0], shares, len(requests))
        return results

    def _shares(self, requests: Sequence[Request]) -> AnswerShares:
        return self._large_shares if self.is_large(requests) else self._small_shares

    def _bounds(self, request: Request, shares: AnswerShares, request_count: int) -> tuple[int, int]:
        """How many messages and bytes of bodies a read may take in a call."""
        messages, size = self._own_bounds(request)
        return messages, min(size, shares.granted(request, request_count))

    def _own_bounds(self, request: Request) -> tuple[int, int]:
        frame = request.pipeline.frame_bytes - ANSWER_OVERHEAD_BYTES
        packet = request.packet
        if not isinstance(packet, ReadMessage):
            return 1, frame - MESSAGE_OVERHEAD_BYTES
        # At most half of the frame may go into what surrounds the bodies.
        messages = min(packet.max_messages, self._max_messages, max(1, frame // (2 * MESSAGE_OVERHEAD_BYTES)))
        held = frame - messages * MESSAGE_OVERHEAD_BYTES
        return messages, min(packet.max_bytes or held, held)

    def _settle_error(
        self, results: Results, request: Request, row: Any, shares: AnswerShares, request_count: int
    ) -> None:
        error = row[1]
        outcome: Outcome | None = None
        if error == BUSY:
            outcome = Mark.BUSY
        elif error == ErrorCode.MESSAGE_TOO_LARGE and shares.tries_again(
            request, request_count, self._own_bounds(request)[1]
        ):
            outcome = Mark.SHORT
            results.heavy[request.packet.queue_id] = request.weight
        if outcome is not None:
            results.outcomes.append(outcome)
            return
        code = ErrorCode(error)
        related_id = row[2] if row[2] else request.packet.queue_id
        details = _DETAILS.get(code, "the read was not executed")
        if code is ErrorCode.QUEUE_NOT_EXISTING:
            details = no_queue(related_id)
        results.fail(request, failure_of(code, details, related_id))


class TakeSelectedGroup(TakeGroup):
    """Gathers all other reads: of one sender, by time, responses."""

    def statement(self, requests: Sequence[Request]) -> calls.Statement:
        """Makes the arrays of take_batch and three more per request: sender, mode, context."""
        packets = [request.packet for request in requests]
        plain = [isinstance(packet, ReadMessage) for packet in packets]
        pairs = list(zip(packets, plain, strict=True))
        return calls.take_selected_batch(
            **self._common(requests),
            sender_ids=[packet.sender_id if is_plain else 0 for packet, is_plain in pairs],
            modes=[packet.mode if is_plain else ReadMode.PRIORITY for packet, is_plain in pairs],
            contexts=[None if is_plain else packet.context for packet, is_plain in pairs],
        )


_DETAILS = {
    ErrorCode.MESSAGE_TOO_LARGE: "the next message is larger than the read may return",
    ErrorCode.NUMBER_REPEATED: "a read with this number was executed already",
}


def _answer(request: Request, rows: list[Any]) -> bytes:
    messages = [_message(row) for row in rows]
    if type(request.packet) is ReadMessage:
        return ReadMessageResponse(messages).encode(request.packet_id)
    return ReadResponseResponse(messages).encode(request.packet_id)


def _message(row: Any) -> Message:
    (
        message_id,
        queue_id,
        sender_id,
        receiver_id,
        priority,
        arrived,
        attempt,
        redelivered,
        context,
        body,
        headers,
        origin,
        expires_ms,
    ) = row[_MESSAGE_AT:]
    message = Message(
        message_id,
        queue_id,
        sender_id,
        receiver_id,
        priority,
        arrived,
        min(attempt, 0xFFFF),
        redelivered,
        body,
        context,
        expires_ms=expires_ms,
    )
    if headers is not None:
        message.headers = headers_of(headers)
    if origin is not None:
        message.origin = origin_of(origin)
    return message
