"""The gets that wait for one topic."""

from __future__ import annotations

from telesto.middleware.scheduling.requests import Read
from telesto.middleware.waiting.queue import Watcher


class WaitingTopic:
    """Parked gets of a topic. A message is for all of them, so it wakes all.

    Attributes:
        interested: other middlewares notify this one of puts to the topic.
        watcher: always None; only queues are watched.
        idle_since: since when no get is parked, by the loop's clock in seconds.
        arrived_at: the waiting room's clock at the last arrival; a get whose scan began before scans again.
        last_number: that of the topic at the last sweep; None before the first.
    """

    __slots__ = ("_reads", "arrived_at", "idle_since", "interested", "last_number", "watcher")

    def __init__(self) -> None:
        self._reads: dict[int, Read] = {}
        self.interested = False
        self.watcher: Watcher | None = None
        self.idle_since = 0.0
        self.arrived_at = 0
        self.last_number: int | None = None

    def __len__(self) -> int:
        return len(self._reads)

    def add(self, read: Read) -> None:
        """Parks a get that has a ticket."""
        assert read.wait is not None
        self._reads[read.wait.ticket] = read

    def remove(self, read: Read) -> None:
        """Removes a parked get."""
        assert read.wait is not None
        del self._reads[read.wait.ticket]

    def all(self) -> list[Read]:
        """All parked gets."""
        return list(self._reads.values())

    def of_client(self, client_id: int) -> list[Read]:
        """The parked gets of a client."""
        return [read for read in self._reads.values() if read.pipeline.client.client_id == client_id]
