"""Begins claims, and handles what they bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from telesto.middleware.common.failures import BUSY, failure_of
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.claim_plan import DELIVERY_BYTES, KEY_BYTES, Claim
from telesto.middleware.consumers.consumer import Consumer, LeaseKey
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.scheduling.message_rows import ANSWER_OVERHEAD_BYTES, handed_over
from telesto.middleware.scheduling.single_request import Row
from telesto.middleware.waiting.room import Announcer
from telesto.protocol.errors import ErrorCode
from telesto.protocol.headers import content_bytes
from telesto.protocol.packets import Deliver, Delivery

_DETAILS = {
    ErrorCode.CLIENT_NOT_EXISTING: "the client was deleted",
    ErrorCode.SESSION_FENCED: "the client has opened another session",
    ErrorCode.QUEUE_NOT_EXISTING: "the queue was deleted",
    ErrorCode.CONSUMER_NOT_EXISTING: "the service took the consumer for gone; it may join again",
}


class RowKind(StrEnum):
    """The meaning of a row of a claim."""

    MESSAGE = "message"
    """A message was leased to a consumer."""
    REFUSED = "refused"
    """A consumer gets nothing; ``error`` says why."""
    MORE = "more"
    """The queue has more messages, which were too large for now or are for other consumers."""
    READY = "ready"
    """The partitions of a consumer have more messages."""
    READY_ELSEWHERE = "ready_elsewhere"
    """The partitions of a consumer that was not part of the claim have messages."""
    UNANSWERED = "unanswered"
    """Partitions of the queue wait for the answer to a leased message."""
    REACHED = "reached"
    """Puts have stored messages in more partitions of the queue."""


class ClaimTracker:
    """Begins claims, pushes their messages to consumers, and keeps those whose outcome is unknown.

    ``over`` must end each claim, after ``settle``, ``failed`` or ``lost``. Until then its queues are not
    claimed from again.

    Attributes:
        consumers: those that it claims for.
        doubtful: consumers of claims whose outcome is unknown. Nothing is claimed until it is known.
    """

    def __init__(
        self, consumers: ConsumerRegistry, announcer: Announcer, counters: Counters, settings: ServerSettings
    ) -> None:
        self.consumers = consumers
        self._announcer = announcer
        self._counters = counters
        self._max_messages = settings.max_batch
        self._busy_s = settings.busy_backoff_max_ms / 1000
        self.doubtful: dict[Consumer, None] = {}

    def begin(self) -> Claim:
        """Begins a claim from all queues that are due."""
        claim = Claim(self.consumers.take_due(), self._max_messages)
        self.consumers.put_back(claim.left)
        return claim

    def begin_for(self, counts: Mapping[int, int]) -> Claim | None:
        """Begins a claim for messages that are about to be put, by queue, and for one more of each queue.

        The additional one shows whether the queue has more messages, for the next claim. Returns None if no
        consumer waits for any of them.
        """
        queues = [] if self.doubtful else self.consumers.take_waiting(counts)
        if not queues:
            return None
        claim = Claim(queues, self._max_messages, {queue_id: count + 1 for queue_id, count in counts.items()})
        self.consumers.put_back(claim.left)
        return claim

    def over(self, claim: Claim) -> None:
        """A claim has ended: its queues may be claimed from again."""
        for queue in claim.queues:
            self.consumers.claimed(queue)

    def failed(self, claim: Claim) -> None:
        """A claim was not executed."""
        for queue in claim.queues:
            queue.awake = True

    def lost(self, claim: Claim) -> None:
        """The outcome of a claim is unknown."""
        self.failed(claim)
        for consumer in claim.consumers:
            consumer.epoch += 1
            self.doubtful[consumer] = None

    def recovered(self, consumers: Sequence[Consumer], rows: Sequence[Row]) -> None:
        """The outcome of lost claims for these consumers is known."""
        # The begin of their leases is unknown, so they are extended soon.
        self._deliver(consumers, rows, 0.0)
        self._counters.recovered_total += len(rows)

    def settle(self, claim: Claim, rows: Sequence[Row]) -> float:
        """Pushes the messages. Returns how long to pause, in seconds, because all queues are locked."""
        self._counters.claims_total += 1
        messages = [row for row in rows if row["kind"] == RowKind.MESSAGE]
        counts = self._deliver(claim.consumers, messages, claim.begun_at)
        busy = False
        for row in [row for row in rows if row["kind"] != RowKind.MESSAGE]:
            kind = RowKind(row["kind"])
            if kind is not RowKind.REFUSED:
                self._note(claim, kind, row, counts)
                continue
            error = row["error"]
            consumer = claim.consumers[row["request"] - 1]
            queue = claim.queue_of[consumer]
            if error == BUSY:
                queue.awake = queue.alone = busy = True
            elif not consumer.ended:
                code = ErrorCode(error)
                self.consumers.end(consumer, failure_of(code, _DETAILS.get(code, "the claim was refused")))
        for queue in claim.queues:
            count = counts.get(queue.queue_id, 0)
            if count:
                queue.alone = False
            if count >= claim.asked[queue.queue_id]:
                queue.awake = True
        return self._busy_s if busy and not counts else 0.0

    def _note(self, claim: Claim, kind: RowKind, row: Row, counts: dict[int, int]) -> None:
        """Handles a row that is neither a message nor a refusal.

        If this claim has brought something, what is left is claimed at once for consumers with credit left.
        Otherwise it did not fit, and an answer has to free credit first.
        """
        queue = claim.by_id[row["queue_id"]]
        if not queue.keyed and kind is not RowKind.MORE:
            # From now on claims ask for all consumers; this one did not.
            queue.keyed = queue.awake = True
        if kind is RowKind.UNANSWERED:
            queue.settling = True
        elif kind is RowKind.REACHED:
            queue.awake = True
        elif kind is RowKind.READY_ELSEWHERE:
            if not self.consumers.ready(row["consumer_id"]):
                self._announcer.ready_elsewhere(queue.queue_id)
        elif not counts.get(queue.queue_id):
            queue.settling = True
        elif kind is RowKind.READY:
            claim.consumers[row["request"] - 1].ready = True
        else:
            queue.awake = True

    def _deliver(
        self, consumers: Sequence[Consumer], rows: Sequence[Row], leased_at: float
    ) -> dict[int, int]:
        """Pushes messages to their consumers; returns how many came from each queue.

        ``leased_at`` is a moment before their leases began.
        """
        by_consumer: dict[int, list[Row]] = {}
        counts: dict[int, int] = {}
        for row in rows:
            by_consumer.setdefault(row["request"], []).append(row)
            counts[row["queue_id"]] = counts.get(row["queue_id"], 0) + 1
        for request, of_consumer in by_consumer.items():
            consumer = consumers[request - 1]
            # One that has ended has left or will leave, and gives them back then.
            if not consumer.ended:
                _push(consumer, of_consumer, leased_at)
        self._counters.delivered_total += len(rows)
        return counts


def _push(consumer: Consumer, rows: Sequence[Row], leased_at: float) -> None:
    """Sends messages to a consumer, in as few frames as they fit."""
    most = consumer.pipeline.frame_bytes - ANSWER_OVERHEAD_BYTES
    deliveries: list[Delivery] = []
    left = most
    for row in rows:
        message = handed_over(row)
        size = content_bytes(message)
        consumer.add(LeaseKey(row["lease_id"], row["message_id"]), size, row["claim_id"], leased_at)
        wire_bytes = size + DELIVERY_BYTES
        if row["partition_key"] is not None:
            message.partition_key = row["partition_key"]
            wire_bytes += KEY_BYTES
        if deliveries and wire_bytes > left:
            consumer.pipeline.send(Deliver(consumer.consumer_id, deliveries).encode(0))
            deliveries, left = [], most
        deliveries.append(Delivery(row["lease_id"], message))
        left -= wire_bytes
    consumer.pipeline.send(Deliver(consumer.consumer_id, deliveries).encode(0))
