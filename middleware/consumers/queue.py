"""The consumers of one queue at this middleware."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from telesto.middleware.consumers.consumer import Consumer


class ConsumedQueue:
    """A queue that consumers of this middleware have joined.

    Attributes:
        queue_id: the queue.
        consumers: by their ids, in the order of joining.
        awake: it may have messages that no consumer has.
        standing: it waits for the next claim, or is part of the current one.
        alone: others had locked it: the next claim is for this queue only, and waits for the lock.
        keyed: it has had messages of partitions, so claims include all consumers.
        settling: the next answer of a consumer may make messages available.
    """

    __slots__ = ("alone", "awake", "consumers", "keyed", "queue_id", "settling", "standing")

    def __init__(self, queue_id: int) -> None:
        self.queue_id = queue_id
        self.consumers: dict[int, Consumer] = {}
        self.awake = True
        self.standing = False
        self.alone = False
        self.keyed = False
        self.settling = False

    @property
    def is_due(self) -> bool:
        """Tells whether a consumer may get a message, and there may be one for it."""
        return any((self.awake or consumer.ready) and consumer.free for consumer in self.consumers.values())

    @property
    def has_credit(self) -> bool:
        """Tells whether a consumer may get a message."""
        return any(consumer.free for consumer in self.consumers.values())

    def deal(self, count: int) -> list[Consumer]:
        """Returns consumers for up to ``count`` messages, in order: the one with the fewest comes first."""
        candidates = [(consumer.held, at, consumer) for at, consumer in enumerate(self.consumers.values())]
        candidates = [entry for entry in candidates if entry[2].free]
        if len(candidates) == 1:
            consumer = candidates[0][2]
            return [consumer] * min(count, consumer.free)
        heapify(candidates)
        limits = {consumer: consumer.held + consumer.free for _, _, consumer in candidates}
        slots: list[Consumer] = []
        while candidates and len(slots) < count:
            held, at, consumer = heappop(candidates)
            slots.append(consumer)
            if held + 1 < limits[consumer]:
                heappush(candidates, (held + 1, at, consumer))
        return slots
