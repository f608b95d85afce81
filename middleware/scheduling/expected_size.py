"""How much a read is expected to return, so that a call takes no more reads than its answer can hold."""

from __future__ import annotations

from collections.abc import Callable


class ExpectedSizes:
    """Remembers for a while the queues whose messages are large.

    A read without a weight gets an equal share of a call's answer. Where that was too little for the next
    message, or hardly enough, the queue's reads weigh more from then on, and fewer of them go into a call.
    """

    def __init__(self, clock: Callable[[], float], duration_s: float, queues_max: int) -> None:
        self._clock = clock
        self._duration_s = duration_s
        self._max = queues_max
        self._weights: dict[int, tuple[int, float]] = {}

    def of(self, queue_id: int) -> int:
        """The weight of a read of a queue in bytes, 0 when its messages are light."""
        if not self._weights:
            return 0
        weight, until = self._weights.get(queue_id, (0, 0.0))
        if weight and until < self._clock():
            del self._weights[queue_id]
            return 0
        return weight

    def note(self, queue_id: int, weight: int) -> None:
        """Takes note of a heavy message, or of a share that was too little."""
        weight = max(weight, self.of(queue_id))
        self._weights.pop(queue_id, None)
        self._weights[queue_id] = (weight, self._clock() + self._duration_s)
        if len(self._weights) > self._max:
            del self._weights[next(iter(self._weights))]
