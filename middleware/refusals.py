"""A refusal keeps order: what was sent before the client saw it must not overtake what was refused.

After a queue refused a put as full, it refuses later ones of the connection too. After a numbered request
was refused for now, or is in doubt, all numbered requests after it are refused for now.
"""

from __future__ import annotations

from telesto.middleware.failures import Failure, behind
from telesto.middleware.requests import Read, Request
from telesto.protocol.packets import PutMessage, PutMessages


def mark_refused(request: Request) -> None:
    """Notes which queues must not take what a request puts, for they refused an earlier put as full.

    The database then records the refusal like one of its own: were it not on the list of a takeover, the put
    would be sent again, after later ones to other queues. The rule for a queue ends with the request that
    confirms the last number refused: the client has seen all refusals then. Requests that are not recorded
    (number 0) have no order to keep.
    """
    refused = request.line.refused
    packet = request.packet
    for confirmed in getattr(packet, "confirmed", ()):
        for queue_id in [queue_id for queue_id, last in refused.items() if last == confirmed]:
            del refused[queue_id]
    number = getattr(packet, "number", 0)
    if number:
        request.refused = refused.keys() & _queues_of(packet)
        refused.update(dict.fromkeys(request.refused, number))


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


def _queues_of(packet: object) -> set[int]:
    """The queues that a request puts into."""
    if isinstance(packet, PutMessage):
        return set(packet.queue_ids)
    if isinstance(packet, PutMessages):
        return {element.queue_id for element in packet.messages}
    return set()
