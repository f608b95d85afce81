"""The expected size of what a read returns, so that a call has no more reads than fit its answer."""

from __future__ import annotations

from collections.abc import Callable


class ExpectedSizes:
    """Remembers for a while the queues whose messages are large.

    A read without a weight gets an equal share of a call's answer. If that was too small for the next
    message, or nearly so, later reads of the queue have a weight, and fewer of them go into a call.
    """

    def __init__(self, clock: Callable[[], float], duration_s: float, queues_max: int) -> None:
        self._clock = clock
        self._duration_s = duration_s
        self._max = queues_max
        self._weights: dict[int, tuple[int, float]] = {}

    def of(self, queue_id: int) -> int:
        """Returns the weight of a read of a queue in bytes; 0 if its messages are small."""
        if not self._weights:
            return 0
        weight, until = self._weights.get(queue_id, (0, 0.0))
        if weight and until < self._clock():
            del self._weights[queue_id]
            return 0
        return weight

    def note(self, queue_id: int, weight: int) -> None:
        """Notes a large message, or a share that was too small."""
        weight = max(weight, self.of(queue_id))
        self._weights.pop(queue_id, None)
        self._weights[queue_id] = (weight, self._clock() + self._duration_s)
        if len(self._weights) > self._max:
            del self._weights[next(iter(self._weights))]
