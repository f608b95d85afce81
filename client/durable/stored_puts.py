"""Calls for puts that an earlier process made, out of the client's state."""

from __future__ import annotations

from typing import Any

from telesto.client.calls.queue_calls import DONE, SENT, Call, PutManyCall, PutMessageCall, put_results
from telesto.client.calls.state import RequestPhase, StoredRequest
from telesto.client.calls.topic_calls import PutToTopicCall
from telesto.client.errors import StateDamagedError
from telesto.client.models import PutResult
from telesto.protocol import packets
from telesto.protocol.errors import TelestoError


class StoredPut(PutMessageCall[list[PutResult]]):
    """One message for one or several queues."""

    def __init__(self, packet: packets.PutMessage) -> None:
        self.message = packet.message
        self.queue_ids = packet.queue_ids

    def result(self) -> list[PutResult]:
        """Returns what became of the message in each queue."""
        return put_results(self, self.response.results)


def call_of(request: StoredRequest) -> Call[Any]:
    """Makes the call for a put. Raises StateDamagedError for one that this version cannot read."""
    try:
        call = _call_for(request.method_id, request.payload)
    except (KeyError, TelestoError) as error:
        raise StateDamagedError(
            f"the client's state holds a request that this version cannot read: {error}; "
            "use the version of telesto-mq that wrote it, or a later one"
        ) from error
    call.position = request.position
    call.session = request.session
    call.number = request.number
    call.unattended = True
    call.orphaned = request.phase is RequestPhase.GIVEN_UP
    call.phase = DONE if call.orphaned else SENT
    return call


def _call_for(method_id: int, payload: bytes) -> Call[Any]:
    packet = packets.PACKETS[method_id].decode(payload)
    match packet:
        case packets.PutMessage():
            return StoredPut(packet)
        case packets.PutMessages():
            return PutManyCall(packet.messages[0].queue_id, packet.messages)
        case packets.PutToTopic():
            return PutToTopicCall(packet.topic, packet.messages)
    raise KeyError(method_id)
