"""A refusal keeps order: what was sent before the client saw it must not overtake what was refused.

After a numbered request was refused for now, or is in doubt, all numbered requests behind it are refused for
now, until the client leaves out a number: it has seen the refusal then, and sends again, in order.

After a queue refused a put as full, it refuses what the connection had sent behind it too. That ends with the
request that confirms the put, or that leaves out a number: the client has seen the refusal then, and the
queue decides again by what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from telesto.middleware.common.failures import Failure, behind
from telesto.middleware.scheduling.requests import Pipeline, Read, Request
from telesto.protocol.packets import PutMessage, PutMessages


def mark_refused(request: Request) -> None:
    """Notes which queues must refuse the messages of a request.

    The database then records the refusal as its own. Otherwise a takeover would not list it, and the put
    would be sent again, after later ones to other queues. The mark stays when the request meets a lock and is
    tried again. Requests without a record (number 0) need no order.
    """
    refused = request.pipeline.refused
    if not refused:
        return
    packet = request.packet
    for confirmed in getattr(packet, "confirmed", ()):
        for queue_id in [queue_id for queue_id, number in refused.items() if number == confirmed]:
            del refused[queue_id]
    if has_order(request):
        request.refused = request.refused | (refused.keys() & _queues_of(packet))


def refused_for_now(request: Request) -> Failure | None:
    """Returns why a request is refused for a refusal before it; None if it may go on."""
    if not has_order(request):
        return None
    _enter_series(request)
    return request.pipeline.refusing


def note_failed(request: Request, failure: Failure) -> None:
    """Notes a failure of a request as a whole."""
    after = behind(failure)
    if after is not None and has_order(request):
        _enter_series(request)
        request.pipeline.refusing = after


def note_full(request: Request, queue_id: int) -> None:
    """Notes that a queue refused a put as full. Of several puts the first counts.

    What was marked as behind another says nothing about the queue: its own rule may have ended meanwhile.
    """
    if has_order(request) and queue_id not in request.refused:
        _enter_series(request)
        request.pipeline.refused.setdefault(queue_id, request.packet.number)


def mark_behind(full: Iterable[tuple[Request, int]], requests: Sequence[Request]) -> None:
    """Marks requests behind puts refused as full that a later call of the batch executes."""
    for refused, queue_id in full:
        if has_order(refused):
            for request in requests:
                if (
                    request.pipeline is refused.pipeline
                    and has_order(request)
                    and queue_id in _queues_of(request.packet)
                ):
                    request.refused = request.refused | {queue_id}


def has_order(request: Request) -> bool:
    """Tells whether a request must keep its order among the others of its connection."""
    if isinstance(request, Read) and request.wait is not None and request.wait.readmitted:
        return False
    return getattr(request.packet, "number", 0) != 0


def _enter_series(request: Request) -> None:
    """Removes refusals that the client had seen when it sent a request."""
    pipeline: Pipeline = request.pipeline
    if request.series > pipeline.series:
        pipeline.series = request.series
        pipeline.refusing = None
        pipeline.refused.clear()


def _queues_of(packet: object) -> set[int]:
    """Returns the queues that a request puts into."""
    if isinstance(packet, PutMessage):
        return set(packet.queue_ids)
    if isinstance(packet, PutMessages):
        return {element.queue_id for element in packet.messages}
    return set()
