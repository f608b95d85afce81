"""The calls of consumers: joining and leaving a queue, the next message, and answers to messages."""

from __future__ import annotations

from collections.abc import Iterable

from telesto.client import arguments
from telesto.client.bookkeeping.consumer_state import ConsumerState
from telesto.client.calls.queue_calls import DONE, Call, GetQueueIdCall
from telesto.client.models import Duration, LeaseId, Message
from telesto.protocol import packets
from telesto.protocol.errors import LeaseLostError
from telesto.protocol.packets import ElementResult, LeaseRef, Packet

#: How many leases one request names at most, so that it fits into any frame.
LEASES_MAX = 512


class JoinCall(Call[ConsumerState], request=packets.JoinQueue):
    """Makes a consumer."""

    def __init__(self, state: ConsumerState) -> None:
        self.state = state
        self.queue_id = state.queue_id

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return self.state.join_packet().encode(packet_id)

    def result(self) -> ConsumerState:
        """Returns the consumer."""
        return self.state


class FindToJoinCall(GetQueueIdCall):
    """Finds the queue of a consumer that is about to join; ``stop`` ends it."""

    def result(self) -> int:
        """Returns the queue's id; 0 when it was ended first."""
        return 0 if self.response is None else super().result()


class LeaveCall(Call[None], request=packets.LeaveQueue):
    """Ends a consumer."""

    settling = True

    def __init__(self, state: ConsumerState) -> None:
        self.state = state
        self.queue_id = state.queue_id

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request; the service ignores it for a consumer that has ended."""
        return packets.LeaveQueue(self.state.consumer_id).encode(packet_id)

    def result(self) -> None:
        """Returns nothing."""


class NextCall(Call["Message | None"]):
    """Waits for the next message that is pushed to a consumer; it is never sent.

    Attributes:
        message: what it brought.
        given_at: when, as ``elapsed`` tells.
        tell_first: even if the message kills the process, it has to count that it was begun.
    """

    method = "Deliver"
    message: Message | None = None
    tell_first = False
    given_at = 0.0

    def __init__(self, state: ConsumerState) -> None:
        self.state = state
        self.queue_id = state.queue_id

    def result(self) -> Message | None:
        """Returns the message; None when the time is up or the consumer was closed."""
        return self.message


class SettleCall(Call[None]):
    """Answers messages; raises LeaseLostError for the first one that is no longer this consumer's.

    Attributes:
        leases: the messages.
        lost: those that were lost, once it is answered.
    """

    settling = True
    leases: list[LeaseId]

    def refs(self) -> list[LeaseRef]:
        """The messages as the wire names them."""
        return [LeaseRef(*lease) for lease in self.leases]

    @property
    def lost(self) -> list[LeaseId]:
        """The messages that were lost."""
        if self.response is None:
            return []
        pairs = zip(self.leases, self.response.results, strict=True)
        return [lease for lease, result in pairs if result.error is not None]

    def result(self) -> None:
        """Returns nothing. Raises LeaseLostError."""
        lost = self.lost
        if lost:
            message_id = lost[0].message_id
            raise LeaseLostError(
                f"message {message_id} is not this consumer's any more: it was answered already, "
                "or its lease or its connection was lost",
                related_id=message_id,
                method=self.method,
                queue_id=self.queue_id,
            )

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        return self.response_type(results)  # type: ignore[call-arg]


class AckCall(SettleCall, request=packets.Ack):
    """Acknowledges messages."""

    def __init__(self, queue_id: int, leases: Iterable[LeaseId]) -> None:
        self.queue_id = queue_id
        self.leases = list(leases)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.Ack(number, confirmed, self.refs()).encode(packet_id)


class NackCall(SettleCall, request=packets.Nack):
    """Gives messages back."""

    def __init__(
        self,
        queue_id: int,
        leases: Iterable[LeaseId],
        failed: bool,
        delay: Duration | None = None,
        reason: str | None = None,
        *,
        rejected: bool = False,
    ) -> None:
        self.queue_id = queue_id
        self.leases = list(leases)
        self.failed = failed
        arguments.check_flag("failed", failed)
        self.delay_ms = None if delay is None else arguments.check_time_ms("delay", delay)
        self.reason = reason
        self.rejected = rejected or None

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        packet = packets.Nack(
            number,
            confirmed,
            self.refs(),
            self.failed,
            delay_ms=self.delay_ms,
            reason=self.reason,
            rejected=self.rejected,
        )
        return packet.encode(packet_id)


class TouchCall(SettleCall, request=packets.Touch):
    """Begins the time of leases anew."""

    def __init__(self, queue_id: int, leases: Iterable[LeaseId]) -> None:
        self.queue_id = queue_id
        self.leases = list(leases)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.Touch(self.refs()).encode(packet_id)


class CheckCall(TouchCall, request=packets.Touch):
    """Says that the application's own transactions have acknowledged messages; finds out whether that is so.

    The service gives the consumer others instead of those that it has no more.
    """

    @property
    def kept(self) -> list[LeaseId]:
        """The messages that are not acknowledged, once it is answered."""
        lost = set(self.lost)
        return [] if self.response is None else [lease for lease in self.leases if lease not in lost]


def log_unacknowledged(queue_id: int, leases: list[LeaseId]) -> None:
    """Says that messages were not acknowledged in the database although the application said so."""
    import logging

    logging.getLogger("telesto.client").error(
        "messages %s of queue %s go back: no transaction that called telesto.ack for them is committed",
        ", ".join(str(lease.message_id) for lease in leases),
        queue_id,
    )


def log_unanswered(calls: Iterable[Call[object]]) -> None:
    """Says, as the client is closed, that acknowledgements which no caller waits for are not answered."""
    open_calls = [call for call in calls if isinstance(call, AckCall) and call.phase < DONE]
    leases = [lease for call in open_calls if call.on_done is not None for lease in call.leases]
    if not leases:
        return
    import logging

    logging.getLogger("telesto.client").warning(
        "the client is closed before the service has confirmed that %d message%s acknowledged, the first of "
        "them %d: they may come again",
        len(leases),
        " is" if len(leases) == 1 else "s are",
        leases[0].message_id,
    )
