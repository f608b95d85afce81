"""GetFromTopics and ConfirmPositions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from telesto.db import calls
from telesto.middleware.common.failures import BUSY, failure_of
from telesto.middleware.procedures.reads import AnswerShares
from telesto.middleware.scheduling.message_rows import ANSWER_OVERHEAD_BYTES, headers_of
from telesto.middleware.scheduling.requests import Get, Mark, Request, Results, SmallAnswers, topic_channel
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import (
    GetFromTopics,
    GetFromTopicsResponse,
    SubscriptionName,
    Success,
    TopicMessage,
)

#: Where columns of telesto.fetched_message are, from which rows are read by place.
_TOPICS_AT = 3
_BODY_AT = 9
#: Bytes of a message on the wire beside its body and its headers, at most.
_MESSAGE_BYTES = 40
#: Bytes of the name of a subscription's topic on the wire, at most: 1,024 characters of four bytes.
_NAME_BYTES = 4 * 1_024 + 10
#: For all subscriptions of the client.
_ALL = -1


class FetchGroup(SmallAnswers):
    """Gathers gets of messages of topics."""

    def __init__(self, max_messages: int, max_answer_bytes: int, light_bytes: int) -> None:
        """Bodies up to ``light_bytes`` do not count as large."""
        self._max_messages = max_messages
        self._shares = AnswerShares(max_answer_bytes)
        self._light_bytes = light_bytes

    def statement(self, requests: Sequence[Request]) -> calls.Statement:
        """Makes the arrays: per request, per position of a subscription that its request does not name.

        Shares of the call's bytes are as for reads of queues.
        """
        targets = [_target(request.packet) for request in requests]
        bounds = [self._bounds(request, len(requests)) for request in requests]
        clients = [request.pipeline.client for request in requests]
        confirmed, afters = [0] * len(requests), [0] * len(requests)
        others: list[tuple[int, int, int, int]] = []
        for index, request in enumerate(requests):
            named = targets[index][0]
            for position in request.packet.positions:
                if position.subscription_id == named:
                    confirmed[index], afters[index] = position.confirmed, position.after
                else:
                    others.append((index + 1, position.subscription_id, position.confirmed, position.after))
        return calls.fetch_batch(
            client_ids=[client.client_id for client in clients],
            sessions=[client.session for client in clients],
            subscriptions=[subscription_id for subscription_id, _ in targets],
            topics=[topic for _, topic in targets],
            max_messages=[messages for messages, _ in bounds],
            max_bytes=[size for _, size in bounds],
            confirmed=confirmed,
            afters=afters,
            position_requests=[request for request, _, _, _ in others],
            position_subscriptions=[subscription_id for _, subscription_id, _, _ in others],
            position_confirmed=[up_to for _, _, up_to, _ in others],
            position_afters=[after for _, _, _, after in others],
        )

    def results(self, requests: Sequence[Request], rows: Sequence[Any]) -> Results:
        """Makes the answers from the rows of messages, of topics without messages, and of errors."""
        found: dict[int, list[Any]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(row)
        results = Results()
        for index, request in enumerate(requests, 1):
            of_request = found.get(index)
            if of_request is None:
                results.outcomes.append(Success().encode(request.packet_id))
                continue
            first = of_request[0]
            if first[1] is not None:
                self._settle_error(results, request, first, len(requests))
            elif first[_TOPICS_AT] is not None:
                wait = cast(Get, request).wait
                if wait is not None:
                    wait.channels = tuple(topic_channel(topic_id) for topic_id in first[_TOPICS_AT])
                results.outcomes.append(Mark.NOTHING)
            else:
                results.outcomes.append(_answer(request, of_request))
                size = len(first[_BODY_AT])
                if size > self._light_bytes:
                    results.heavy[_heavy_key(request)] = size
        return results

    def _bounds(self, request: Request, request_count: int) -> tuple[int, int]:
        """How many messages and bytes of bodies a get may return in a call."""
        if not isinstance(request.packet, GetFromTopics):
            return 0, 0
        messages, size = self._own_bounds(request)
        return messages, min(size, self._shares.granted(request, request_count))

    def _own_bounds(self, request: Request) -> tuple[int, int]:
        packet = request.packet
        frame = request.pipeline.frame_bytes - ANSWER_OVERHEAD_BYTES
        if packet.topic:
            frame -= len(packet.topic.encode()) + 10
        # Each message may be of another topic, whose name is told too.
        overhead = _MESSAGE_BYTES if packet.subscription_id or packet.topic else _MESSAGE_BYTES + _NAME_BYTES
        messages = min(packet.max_messages, self._max_messages, max(1, frame // (2 * overhead)))
        held = max(0, frame - messages * overhead)
        return messages, min(packet.max_bytes or held, held)

    def _settle_error(self, results: Results, request: Request, row: Any, request_count: int) -> None:
        error = row[1]
        if error == BUSY:
            results.outcomes.append(Mark.BUSY)
            return
        if error == ErrorCode.MESSAGE_TOO_LARGE:
            own = self._own_bounds(request)[1]
            if self._shares.tries_again(request, request_count, own):
                results.heavy[_heavy_key(request)] = request.weight
                results.outcomes.append(Mark.SHORT)
                return
        code = ErrorCode(error)
        results.fail(request, failure_of(code, _DETAILS.get(code, "nothing was fetched"), row[2]))


_DETAILS = {
    ErrorCode.MESSAGE_TOO_LARGE: "the next message is larger than the get may return",
    ErrorCode.NOT_SUBSCRIBED: "the client has no such subscription; subscribe first",
    ErrorCode.POSITION_UNKNOWN: "the position lies beyond the topic's end or before the subscription",
    ErrorCode.SUBSCRIPTION_DROPPED: "the subscription was too far behind and was dropped; subscribe again",
}


def _target(packet: Any) -> tuple[int, str | None]:
    """The subscription, or 0 and the topic's name, or the number for all of the client's."""
    if not isinstance(packet, GetFromTopics):
        return _ALL, None
    if packet.subscription_id:
        return packet.subscription_id, None
    return (0, packet.topic) if packet.topic else (_ALL, None)


def _heavy_key(request: Request) -> int:
    """Returns the key of a subscription in the expected sizes. Queues have positive keys."""
    return -int(request.packet.subscription_id)


def _answer(request: Request, rows: list[Any]) -> bytes:
    messages = [
        TopicMessage(subscription_id, number, sender_id, arrived, body, headers=headers_of(headers))
        for _, _, _, _, subscription_id, _, number, sender_id, arrived, body, headers in rows
    ]
    names = {row[4]: row[5] for row in rows if row[5] is not None}
    told = [SubscriptionName(subscription_id, topic) for subscription_id, topic in names.items()]
    return GetFromTopicsResponse(messages, told).encode(request.packet_id)
