"""A refusal keeps order: what was sent before the client saw it must not overtake what was refused.

After a put was refused as full, later ones to that queue are refused too. After a numbered request was
refused for now, or is in doubt, all numbered requests after it are refused for now.
"""

from __future__ import annotations

from telesto.middleware.failures import Failure, behind, failure_of
from telesto.middleware.requests import Read, Request
from telesto.middleware.results import error_frame
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import PutMessage, PutMessages


def refused_before(request: Request) -> bytes | None:
    """Returns the answer to a put that must not overtake one that its queue refused; None if it may go on.

    It is an Error, although results could say the same, because a success would tell the client that what the
    request confirms was applied. The rule for a queue ends with the request that confirms the last number
    refused: the client has seen all refusals then. Requests that are not recorded (number 0) have no order
    to keep.
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


def refused_for_now(request: Request) -> Failure | None:
    """Returns why a request is refused for a refusal before it; None if it may go on.

    The client sends it all again, in order, and leaves out a number before the first: that ends the rule.
    """
    line = request.line
    if line.refusing is None or not has_order(request):
        return None
    if request.resumes:
        line.refusing = None
    return line.refusing


def note_failed(request: Request, failure: Failure) -> None:
    """Notes a failure of a request as a whole."""
    if has_order(request):
        request.line.refusing = behind(failure) or request.line.refusing


def has_order(request: Request) -> bool:
    """Tells whether a request has a place among the others of its connection."""
    if isinstance(request, Read) and request.wait is not None and request.wait.readmitted:
        return False
    return getattr(request.packet, "number", 0) != 0


def note_full(request: Request, queue_id: int) -> None:
    """Notes that a queue refused a put as full."""
    number = request.packet.number
    if number:
        request.line.refused[queue_id] = number


def _refuse(request: Request, queue_ids: list[int]) -> bytes | None:
    refused = request.line.refused
    if request.packet.number == 0:
        return None
    hit = [queue_id for queue_id in queue_ids if queue_id in refused]
    if not hit:
        return None
    # The client must have seen this refusal too before it puts again.
    refused.update(dict.fromkeys(hit, request.packet.number))
    details = f"queue {hit[0]} refused an earlier put, so nothing of this one was done"
    return error_frame(request.packet_id, failure_of(ErrorCode.QUEUE_FULL, details, hit[0]))
