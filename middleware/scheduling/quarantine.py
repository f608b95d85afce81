"""Clients that were part of a call in which a connection to the database died for an unknown reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Quarantine:
    """Keeps such clients apart for a while, so that a poisonous request is found and hurts no others."""

    def __init__(self, clock: Callable[[], float], duration_s: float, batch: int, clients_max: int) -> None:
        self._clock = clock
        self._duration_s = duration_s
        self._batch = batch
        self._max = clients_max
        self._until: dict[int, float] = {}

    def __len__(self) -> int:
        """How many clients are kept apart now. One whose time is over may never send another request."""
        now = self._clock()
        return sum(until >= now for until in self._until.values())

    def add(self, client_ids: Iterable[int]) -> None:
        """Begins the time of clients; the oldest are let go when there are too many."""
        until = self._clock() + self._duration_s
        for client_id in client_ids:
            self._until.pop(client_id, None)
            self._until[client_id] = until
        while len(self._until) > self._max:
            del self._until[next(iter(self._until))]

    def batch(self, client_id: int) -> int:
        """How many requests of a client in quarantine may go into a call of its own; 0 for others."""
        if not self._until:
            return 0
        until = self._until.get(client_id)
        if until is None:
            return 0
        if until < self._clock():
            del self._until[client_id]
            return 0
        return self._batch
