"""Gives connections their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable

from telesto.middleware.common.budget import Budget
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.fair_queue import ApartTurns, Batch, BatchLimits, SingleTurns, Turns
from telesto.middleware.scheduling.quarantine import Quarantine
from telesto.middleware.scheduling.requests import SINGLY, Kind, Line, Read, Request

_GATHERED = (Kind.PUT, Kind.TAKE, Kind.TAKE_SELECTED, Kind.PUBLISH)
#: Calls of these are bounded by what they return, all others by what they send.
_RETURNING = (Kind.TAKE, Kind.TAKE_SELECTED, Kind.FETCH)


class Dispatcher:
    """Knows for each kind whose turn it is, and lets a line stand where its next request belongs.

    Requests of one connection take effect in the order in which they were sent: a line has one run in flight,
    and stands again when all of the run is answered, parked or given back.
    """

    def __init__(
        self,
        settings: ServerSettings,
        loop: asyncio.AbstractEventLoop,
        budget: Budget,
        queue_of: Callable[[Request], Hashable],
    ) -> None:
        self._loop = loop
        self._backoff_s = settings.busy_backoff_ms / 1000
        self._backoff_max_s = settings.busy_backoff_max_ms / 1000
        self.budget = budget
        self.quarantine = Quarantine(
            loop.time, settings.quarantine_s, settings.quarantine_batch, settings.quarantine_max
        )
        self.turns = {
            kind: (SingleTurns if kind is Kind.SINGLE else Turns)(
                kind, _limits(kind, settings), self.quarantine
            )
            for kind in Kind
        }
        self.apart: dict[Kind, Turns] = {
            kind: ApartTurns(kind, _limits(kind, settings), self.quarantine, queue_of) for kind in _GATHERED
        }

    def stand(self, line: Line) -> None:
        """Lets a line stand where its next request belongs, unless it may not have a turn now."""
        if line.standing or line.in_flight or line.resting or line.held or not line.requests:
            return
        kind = line.requests[0].kind
        turns = self.apart if line.apart and kind in self.apart else self.turns
        turns[kind].join(line)

    def served(self, batch: Batch) -> None:
        """A batch is over: its lines may have their next turns."""
        for line in batch.lines:
            line.in_flight = False
            self.stand(line)

    def rest(self, line: Line) -> None:
        """Requests of a line's run came back busy: it waits a little and goes apart then."""
        line.apart = True
        line.resting = True
        self._loop.call_later(self._backoff(line.busy_count), self._stand_again, line)
        line.busy_count += 1

    def rest_read(self, read: Read, busy_count: int) -> None:
        """The same for a read that goes its way without its line."""
        turns = self.apart.get(read.kind, self.turns[read.kind])
        self._loop.call_later(self._backoff(busy_count), turns.readmit, read)

    def readmit(self, read: Read) -> None:
        """A read that was parked is tried again."""
        self.budget.enter(1, read.size)
        self.turns[read.kind].readmit(read)

    def drop(self, requests: Iterable[Request]) -> None:
        """Forgets requests of a connection that is gone."""
        dropped = list(requests)
        self.budget.leave(len(dropped), sum(request.size for request in dropped))

    def close(self) -> None:
        """Sends all workers home."""
        for turns in (*self.turns.values(), *self.apart.values()):
            turns.close()

    def _backoff(self, busy_count: int) -> float:
        return min(self._backoff_s * (1 << min(busy_count, 16)), self._backoff_max_s)

    def _stand_again(self, line: Line) -> None:
        line.resting = False
        self.stand(line)


def _limits(kind: Kind, settings: ServerSettings) -> BatchLimits:
    if kind in SINGLY:
        return BatchLimits(1, settings.max_batch_bytes, 1)
    weight = settings.max_answer_bytes if kind in _RETURNING else settings.max_batch_bytes
    return BatchLimits(settings.max_batch, weight, settings.quantum)
