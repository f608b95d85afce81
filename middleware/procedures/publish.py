"""PutToTopic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from telesto.db import calls
from telesto.middleware.common.failures import BUSY, failure_of
from telesto.middleware.procedures.put import unless_all_none
from telesto.middleware.scheduling.message_rows import headers_column
from telesto.middleware.scheduling.requests import (
    Mark,
    Request,
    Results,
    SmallAnswers,
    confirmed_of,
    topic_channel,
)
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import PutToTopicResponse, TopicPutResult

#: The only error of one message; all others are the same for a whole request.
_GAP = ErrorCode.SEQUENCE_GAP


class PublishGroup(SmallAnswers):
    """Gathers puts to topics."""

    stores = True

    def statement(self, requests: Sequence[Request]) -> calls.Statement:
        """Makes the arrays: per request, per topic, per message, per confirmed number."""
        topics = _topics_of(requests)
        packets = [request.packet for request in requests]
        clients = [request.pipeline.client for request in requests]
        messages = [(r, message) for r, packet in enumerate(packets, 1) for message in packet.messages]
        return calls.publish_batch(
            client_ids=[client.client_id for client in clients],
            sessions=[client.session for client in clients],
            numbers=[packet.number for packet in packets],
            topic_names=list(topics),
            request_topics=[topics[packet.topic] for packet in packets],
            element_requests=[r for r, _ in messages],
            sequences=[message.sequence for _, message in messages],
            bodies=[message.body for _, message in messages],
            **confirmed_of(requests),
            headers=unless_all_none(
                [headers_column(message.headers) if message.headers else None for _, message in messages]
            ),
        )

    def results(self, requests: Sequence[Request], rows: Sequence[Any]) -> Results:
        """Makes the answers from the one row of errors, numbers and topics."""
        errors, numbers, duplicates, topic_ids = rows[0]
        topics = _topics_of(requests)
        results = Results()
        at = 0
        for request in requests:
            packet = request.packet
            end = at + len(packet.messages)
            of_request = [None] * (end - at) if errors is None else errors[at:end]
            repeated = [False] * (end - at) if duplicates is None else duplicates[at:end]
            first = of_request[0]
            if first == BUSY:
                results.outcomes.append(Mark.BUSY)
            elif first is not None and first != _GAP:
                results.fail(request, failure_of(ErrorCode(first), "the put was not executed"))
            else:
                answers = [
                    TopicPutResult(number, duplicate, error)
                    for number, duplicate, error in zip(numbers[at:end], repeated, of_request, strict=True)
                ]
                results.outcomes.append(PutToTopicResponse(answers).encode(request.packet_id))
                channel = topic_channel(topic_ids[topics[packet.topic] - 1])
                results.note_arrival(channel, 0, end - at)
            at = end
        return results


def _topics_of(requests: Sequence[Request]) -> dict[str, int]:
    """The topics of the requests, each once, with its index from 1 on."""
    topics: dict[str, int] = {}
    for request in requests:
        topics.setdefault(request.packet.topic, len(topics) + 1)
    return topics
