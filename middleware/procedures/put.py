"""PutMessage and PutMessages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from telesto.db import calls
from telesto.middleware.common.failures import BUSY, failure_of
from telesto.middleware.common.peers import Peers
from telesto.middleware.scheduling.message_rows import headers_column
from telesto.middleware.scheduling.requests import Mark, Request, Results, SmallAnswers, confirmed_of
from telesto.middleware.security.rights import HIDDEN
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import (
    NewMessage,
    PutMessage,
    PutMessageResponse,
    PutMessagesResponse,
    PutResult,
)

#: Errors of one element; all others are the same for a whole request.
_OF_ELEMENT = (ErrorCode.QUEUE_NOT_EXISTING, ErrorCode.QUEUE_FULL)


class PutGroup(SmallAnswers):
    """Gathers puts."""

    stores = True

    def __init__(self, peers: Peers) -> None:
        """``peers`` has the id of this middleware, which is stored with the messages."""
        self._peers = peers

    def statement(self, requests: Sequence[Request]) -> calls.Statement:
        """Makes the arrays: per request, per element, per confirmed number.

        The id of a queue that must refuse an element is negative.
        """
        clients: list[int] = []
        sessions: list[int] = []
        numbers: list[int] = []
        methods: list[int] = []
        of_request: list[int] = []
        queues: list[int] = []
        receivers: list[int] = []
        priorities: list[int] = []
        contexts: list[int | None] = []
        bodies: list[bytes] = []
        keys: list[str | None] = []
        headers: list[str | None] = []
        delays: list[int | None] = []
        lives: list[int | None] = []
        partitions: list[str | None] = []
        for index, request in enumerate(requests, 1):
            packet = request.packet
            client = request.pipeline.client
            clients.append(client.client_id)
            sessions.append(client.session)
            numbers.append(packet.number)
            methods.append(packet.METHOD_ID)
            if type(packet) is PutMessage:
                message = packet.message
                for queue_id in packet.queue_ids:
                    of_request.append(index)
                    queues.append(queue_id)
                    receivers.append(message.receiver_id)
                    priorities.append(message.priority)
                    contexts.append(message.context)
                    bodies.append(message.body)
                    keys.append(message.dedup_key)
                    delays.append(message.delay_ms or None)
                    lives.append(message.expires_ms)
                    partitions.append(message.partition_key)
                    headers.append(headers_column(message.headers) if message.headers else None)
            else:
                for element in packet.messages:
                    message = element.message
                    of_request.append(index)
                    queues.append(element.queue_id)
                    receivers.append(message.receiver_id)
                    priorities.append(message.priority)
                    contexts.append(message.context)
                    bodies.append(message.body)
                    keys.append(message.dedup_key)
                    delays.append(message.delay_ms or None)
                    lives.append(message.expires_ms)
                    partitions.append(message.partition_key)
                    headers.append(headers_column(message.headers) if message.headers else None)
        if any(request.refused for request in requests):
            pairs = zip(of_request, queues, strict=True)
            queues = [-queue if queue in requests[index - 1].refused else queue for index, queue in pairs]
        return calls.put_batch(
            client_ids=clients,
            sessions=sessions,
            numbers=numbers,
            method_ids=methods,
            element_requests=of_request,
            queue_ids=queues,
            receiver_ids=receivers,
            priorities=priorities,
            contexts=contexts,
            bodies=bodies,
            **confirmed_of(requests),
            dedup_keys=unless_all_none(keys),
            delays_ms=unless_all_none(delays),
            lives_ms=unless_all_none(lives),
            partition_keys=unless_all_none(partitions),
            headers=unless_all_none(headers),
            middleware_id=self._peers.middleware_id,
        )

    def results(self, requests: Sequence[Request], rows: Sequence[Any]) -> Results:
        """Makes the answers from the one row of errors and message ids."""
        # What a claim in the same call has brought stands in columns of its own.
        errors, message_ids = rows[0][:2]
        results = Results()
        at = 0
        for request in requests:
            packet = request.packet
            if (
                type(packet) is PutMessage
                and len(packet.queue_ids) == 1
                and errors is None
                and message_ids[at] > 0
                and not packet.message.delay_ms
            ):
                # By far the most frequent case, so without the detours of the general one.
                queue_id = packet.queue_ids[0]
                results.note_arrival(queue_id, packet.message.receiver_id)
                answer = PutMessageResponse([PutResult(queue_id, message_ids[at], False, None)])
                results.outcomes.append(answer.encode(request.packet_id))
                at += 1
                continue
            elements = elements_of(packet)
            end = at + len(elements)
            element_errors = errors[at:end] if errors is not None else [None] * len(elements)
            _settle(results, request, elements, element_errors, message_ids[at:end])
            at = end
        return results


def unless_all_none(values: list[Any]) -> list[Any] | None:
    """Returns one value for each element; None when all are, so that the procedure need not look."""
    return values if any(value is not None for value in values) else None


def queue_of(request: Request) -> int:
    """The queue of a put, 0 when it is for several."""
    queue_ids = {queue_id for queue_id, _ in elements_of(request.packet)}
    return queue_ids.pop() if len(queue_ids) == 1 else 0


def elements_of(packet: Any) -> list[tuple[int, NewMessage]]:
    """Queue and message of each element of a put."""
    if type(packet) is PutMessage:
        return [(queue_id, packet.message) for queue_id in packet.queue_ids]
    return [(element.queue_id, element.message) for element in packet.messages]


def _settle(
    results: Results,
    request: Request,
    elements: list[tuple[int, NewMessage]],
    errors: Sequence[int | None],
    message_ids: Sequence[int],
) -> None:
    first = errors[0]
    if first == BUSY:
        results.outcomes.append(Mark.BUSY)
        return
    if first is not None and first not in _OF_ELEMENT:
        results.fail(request, failure_of(ErrorCode(first), "the put was not executed"))
        return
    answers = []
    for (queue_id, message), error, message_id in zip(elements, errors, message_ids, strict=True):
        shown_id = queue_id if error is None else queue_id & ~HIDDEN
        answers.append(PutResult(shown_id, abs(message_id), message_id < 0, error))
        if message_id > 0:
            # A delayed message wakes no read now.
            if not message.delay_ms:
                results.note_arrival(queue_id, message.receiver_id)
        elif error == ErrorCode.QUEUE_FULL:
            results.full.append((request, queue_id))
    response = PutMessageResponse if type(request.packet) is PutMessage else PutMessagesResponse
    results.outcomes.append(response(answers).encode(request.packet_id))
