"""Announces messages to all that wait for them, here and at other middlewares."""

from __future__ import annotations

from collections.abc import Callable

from telesto.middleware.scheduling.outcomes import Arrivals
from telesto.middleware.waiting.room import WaitingRoom


class Announcer:
    """Wakes reads and consumers here, and tells the other middlewares."""

    def __init__(self, room: WaitingRoom, tell_others: Callable[[Arrivals], None]) -> None:
        """``tell_others`` is that of the ``Notifier``; a count of 0 says that a queue has changed."""
        self._room = room
        self._tell_others = tell_others

    def arrived(self, arrivals: Arrivals) -> None:
        """Messages came to queues, or came back."""
        self._room.arrived(arrivals)
        self._tell_others(arrivals)

    def ready_elsewhere(self, queue_id: int) -> None:
        """Other middlewares have something to claim from a queue."""
        self._tell_others({(queue_id, 0): 1})

    def queue_deleted(self, queue_id: int) -> None:
        """A queue was deleted: all that wait for it must know."""
        self._room.queue_deleted(queue_id)
        self._tell_others({(queue_id, 0): 0})
