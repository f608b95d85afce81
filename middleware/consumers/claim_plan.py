"""One claim: the queues and the consumers that it is for, and how many messages they may get."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from telesto.db import calls
from telesto.middleware.consumers.consumer import Consumer
from telesto.middleware.consumers.queue import ConsumedQueue
from telesto.middleware.scheduling.message_rows import ANSWER_OVERHEAD_BYTES, MESSAGE_OVERHEAD_BYTES

#: Bytes of a delivery on the wire beside its message's body and its partition's key, at most.
DELIVERY_BYTES = 8 + MESSAGE_OVERHEAD_BYTES
#: Bytes of a partition key on the wire, at most.
KEY_BYTES = 8 + 4 * 255


class Claim:
    """What is claimed for whom.

    Attributes:
        queues: those that are claimed from.
        left: those that there was no place for.
        consumers: those that may be given something, in the order of the arrays.
        queue_of: the queue of each.
        by_id: the queues by their ids.
        asked: by queue, how many messages are asked for at most.
        begun_at: when it began, by the monotonic clock in seconds.
    """

    def __init__(
        self, queues: Sequence[ConsumedQueue], most: int, shares: Mapping[int, int] | None = None
    ) -> None:
        """``most`` bounds the messages, ``shares`` those of each queue by its id."""
        self.queues: list[ConsumedQueue] = []
        self.left: list[ConsumedQueue] = []
        self.consumers: list[Consumer] = []
        self.queue_of: dict[Consumer, ConsumedQueue] = {}
        self.by_id: dict[int, ConsumedQueue] = {}
        self.asked: dict[int, int] = {}
        self._slots: list[int] = []
        self.begun_at = time.monotonic()
        for at, queue in enumerate(queues):
            left = most - len(self._slots)
            if left <= 0:
                self.left = list(queues[at:])
                break
            self.queues.append(queue)
            slots = queue.deal(left if shares is None else min(left, shares[queue.queue_id]))
            if slots:
                # Whatever comes from now on wakes it again; what this claim leaves, the claim itself tells.
                queue.awake = queue.settling = False
            self.by_id[queue.queue_id] = queue
            self.asked[queue.queue_id] = len(slots)
            self._add(queue, slots)

    def _add(self, queue: ConsumedQueue, slots: list[Consumer]) -> None:
        places: dict[Consumer, int] = {}
        for consumer in slots:
            if consumer not in places:
                self.consumers.append(consumer)
                self.queue_of[consumer] = queue
                places[consumer] = len(self.consumers)
        if queue.keyed:
            for consumer in queue.consumers.values():
                if consumer not in places and not consumer.ended:
                    self.consumers.append(consumer)
                    self.queue_of[consumer] = queue
        for consumer in queue.consumers.values():
            consumer.ready = False
        self._slots += [places[consumer] for consumer in slots]

    def statement(self, answer_bytes: int, *, waits: bool) -> calls.Statement:
        """The call of the procedure.

        Args:
            answer_bytes: how many bytes of bodies are taken from each queue.
            waits: whether the lock of a single queue is waited for.
        """
        consumers = self.consumers
        return calls.claim_batch(
            queue_ids=[consumer.queue_id for consumer in consumers],
            consumer_ids=[consumer.consumer_id for consumer in consumers],
            client_ids=[consumer.client.client_id for consumer in consumers],
            sessions=[consumer.client.session for consumer in consumers],
            epochs=[consumer.epoch for consumer in consumers],
            max_bytes=[consumer.free_bytes for consumer in consumers],
            largest=[_largest(consumer) for consumer in consumers],
            idle=[consumer.held == 0 for consumer in consumers],
            slots=self._slots,
            answer_bytes=answer_bytes,
            waits=waits,
        )


def _largest(consumer: Consumer) -> int:
    """The length of the longest body that a consumer's connection can carry."""
    return max(0, consumer.pipeline.frame_bytes - ANSWER_OVERHEAD_BYTES - DELIVERY_BYTES - KEY_BYTES)
