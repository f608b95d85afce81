"""A refusal keeps order: after a put was refused as full, later ones to that queue are refused too."""

from __future__ import annotations

from telesto.middleware.failures import failure_of
from telesto.middleware.requests import Request
from telesto.middleware.results import error_frame
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import PutMessage, PutMessages


def refused_before(request: Request) -> bytes | None:
    """Returns the answer to a put that must not overtake one that its queue refused; None if it may go on.

    It is an Error, although results could say the same, because a success would tell the client that what the
    request confirms was applied. The rule for a queue ends with the request that confirms the refused number:
    the client has seen the refusal then. Requests that are not recorded (number 0) have no order to keep.
    """
    refused = request.line.refused
    packet = request.packet
    for number in getattr(packet, "confirmed", ()):
        for queue_id in [queue_id for queue_id, first in refused.items() if first == number]:
            del refused[queue_id]
    if isinstance(packet, PutMessage):
        return _refuse(request, packet.queue_ids)
    if isinstance(packet, PutMessages):
        return _refuse(request, [element.queue_id for element in packet.messages])
    return None


def note_full(request: Request, queue_id: int) -> None:
    """Notes that a queue refused a put as full."""
    number = request.packet.number
    if number:
        request.line.refused.setdefault(queue_id, number)


def _refuse(request: Request, queue_ids: list[int]) -> bytes | None:
    refused = request.line.refused
    if request.packet.number == 0:
        return None
    hit = [queue_id for queue_id in queue_ids if queue_id in refused]
    if not hit:
        return None
    details = f"queue {hit[0]} refused an earlier put, so nothing of this one was done"
    return error_frame(request.packet_id, failure_of(ErrorCode.QUEUE_FULL, details, hit[0]))
