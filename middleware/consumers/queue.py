"""The consumers of one queue at this middleware."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from telesto.middleware.consumers.consumer import Consumer


class ConsumedQueue:
    """A queue that consumers of this middleware have joined.

    Attributes:
        queue_id: the queue.
        consumers: by their ids, in the order of joining.
        awake: it may hold messages that nobody has claimed.
        standing: it stands in the line for the next claim, or is being claimed for.
        alone: it was locked by others: the next claim is for it alone, and waits.
        keyed: it has held messages of partitions, so that claims ask for all consumers what is ready.
        settling: an answer of a consumer may let it go on.
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
        """Tells whether some consumer may be given a message, and there may be one for it."""
        return any((self.awake or consumer.ready) and consumer.free for consumer in self.consumers.values())

    @property
    def has_credit(self) -> bool:
        """Tells whether some consumer may be given a message."""
        return any(consumer.free for consumer in self.consumers.values())

    def deal(self, count: int) -> list[Consumer]:
        """The consumers in the order in which they get up to so many messages: who has least comes first."""
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
