"""The reads that wait for one queue."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from typing import NamedTuple

from telesto.middleware.scheduling.requests import Read

#: Receivers whose missed wake-ups are remembered; with more, all of them count as missed.
_RECEIVERS_MAX = 1_000


class Watcher(NamedTuple):
    """Functions that are called, with the queue's id, for a watched queue.

    Attributes:
        arrived: called when the queue may hold a message.
        deleted: called when the queue was deleted.
    """

    arrived: Callable[[int], None]
    deleted: Callable[[int], None]


class MissedWakeUps:
    """Wake-ups without a parked read: a read whose scan began before must scan again before it parks."""

    __slots__ = ("_anyone", "_anyone_at", "_everyone_at", "_receivers")

    def __init__(self) -> None:
        self._anyone = 0
        self._anyone_at = 0
        self._receivers: dict[int, int] = {}
        self._everyone_at = 0

    def add(self, receiver_id: int, count: int, clock: int) -> None:
        """Remembers messages that arrived at a time of the waiting room's clock."""
        if receiver_id == 0:
            self._anyone += count
            self._anyone_at = clock
            return
        self._receivers[receiver_id] = clock
        if len(self._receivers) > _RECEIVERS_MAX:
            self._receivers.clear()
            self._everyone_at = clock

    def claim(self, client_id: int, scanned_at: int, *, directed_only: bool) -> int | None:
        """Returns for which receiver a client's read missed a message since its scan began; None for none."""
        if max(self._receivers.get(client_id, 0), self._everyone_at) > scanned_at:
            return client_id
        if directed_only:
            return None
        if self._anyone_at <= scanned_at:
            self._anyone = 0
            return None
        if self._anyone == 0:
            return None
        self._anyone -= 1
        return 0


class WaitingQueue:
    """Parked reads in the order of their tickets, all that take any message and those of each client.

    Attributes:
        interested: other middlewares notify this one of puts to the queue.
        idle_since: since when no read is parked, by the loop's clock in seconds.
        missed: wake-ups that found no read.
        watcher: called when messages arrive, beside the reads; None without one.
        swept: the ticket of the last read that a sweep woke.
    """

    __slots__ = ("_any", "_by_client", "_reads", "idle_since", "interested", "missed", "swept", "watcher")

    def __init__(self) -> None:
        self._reads: dict[int, Read] = {}
        self._any: list[int] = []
        self._by_client: dict[int, list[int]] = {}
        self.interested = False
        self.watcher: Watcher | None = None
        self.idle_since = 0.0
        self.missed = MissedWakeUps()
        self.swept = 0

    def __len__(self) -> int:
        return len(self._reads)

    def add(self, read: Read) -> None:
        """Parks a read that has a ticket."""
        assert read.wait is not None
        ticket = read.wait.ticket
        self._reads[ticket] = read
        insort(self._by_client.setdefault(read.pipeline.client.client_id, []), ticket)
        if not read.wait.by_context:
            insort(self._any, ticket)

    def remove(self, read: Read) -> None:
        """Removes a parked read."""
        assert read.wait is not None
        ticket = read.wait.ticket
        del self._reads[ticket]
        client_id = read.pipeline.client.client_id
        tickets = self._by_client[client_id]
        del tickets[bisect_left(tickets, ticket)]
        if not tickets:
            del self._by_client[client_id]
        if not read.wait.by_context:
            del self._any[bisect_left(self._any, ticket)]

    def next_for(self, receiver_id: int, after: int) -> Read | None:
        """Returns the first read behind a ticket that may take a message for a receiver (0: for anyone)."""
        tickets = self._any if receiver_id == 0 else self._by_client.get(receiver_id)
        if not tickets:
            return None
        at = bisect_right(tickets, after)
        return self._reads[tickets[at]] if at < len(tickets) else None

    def all(self) -> list[Read]:
        """All parked reads, first come first."""
        return [self._reads[ticket] for ticket in sorted(self._reads)]

    def some_after(self, ticket: int, count: int) -> list[Read]:
        """Returns up to ``count`` reads: those behind a ticket, then from the beginning."""
        tickets = sorted(self._reads)
        at = bisect_right(tickets, ticket)
        return [self._reads[chosen] for chosen in (tickets[at:] + tickets[:at])[:count]]
