"""Puts the pipelines of connections into the queues of the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable

from telesto.middleware.common.budget import Budget
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.fair_queue import (
    Batch,
    BatchLimits,
    BusyFairQueue,
    FairQueue,
    SingleFairQueue,
)
from telesto.middleware.scheduling.quarantine import Quarantine
from telesto.middleware.scheduling.requests import SINGLY, Kind, Pipeline, Read, Request

_GATHERED = (Kind.PUT, Kind.TAKE, Kind.TAKE_SELECTED, Kind.PUBLISH)
#: Calls of these are bounded by what they return, all others by what they send.
_RETURNING = (Kind.TAKE, Kind.TAKE_SELECTED, Kind.FETCH)


class Dispatcher:
    """Has a fair queue for each kind of request, and puts a pipeline into the one of its next request.

    Requests of one connection take effect in the order in which they were sent: a pipeline has one run in
    flight, and joins a queue again when each request of the run is answered, parked or given back.
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
        self.fair_queues = {
            kind: (SingleFairQueue if kind is Kind.SINGLE else FairQueue)(
                kind, _limits(kind, settings), self.quarantine
            )
            for kind in Kind
        }
        self.busy_queues: dict[Kind, FairQueue] = {
            kind: BusyFairQueue(kind, _limits(kind, settings), self.quarantine, queue_of)
            for kind in _GATHERED
        }

    def stand(self, pipeline: Pipeline) -> None:
        """Puts a pipeline into the queue of its next request, unless it has to wait."""
        if (
            pipeline.standing
            or pipeline.in_flight
            or pipeline.resting
            or pipeline.held
            or not pipeline.requests
        ):
            return
        kind = pipeline.requests[0].kind
        queues = self.busy_queues if pipeline.apart and kind in self.busy_queues else self.fair_queues
        queues[kind].join(pipeline)

    def served(self, batch: Batch) -> None:
        """A batch is over: its pipelines may stand in a queue again."""
        for pipeline in batch.pipelines:
            pipeline.in_flight = False
            self.stand(pipeline)

    def rest(self, pipeline: Pipeline) -> None:
        """Requests of a run were busy: the pipeline pauses, and its next run is for one queue only."""
        pipeline.apart = True
        pipeline.resting = True
        self._loop.call_later(self._backoff(pipeline.busy_count), self._stand_again, pipeline)
        pipeline.busy_count += 1

    def rest_read(self, read: Read, busy_count: int) -> None:
        """The same for a read that was woken and is tried again without its pipeline."""
        queue = self.busy_queues.get(read.kind, self.fair_queues[read.kind])
        self._loop.call_later(self._backoff(busy_count), queue.readmit, read)

    def readmit(self, read: Read) -> None:
        """A read that was parked is tried again."""
        self.budget.enter(1, read.size)
        self.fair_queues[read.kind].readmit(read)

    def drop(self, requests: Iterable[Request]) -> None:
        """Forgets requests of a connection that is gone."""
        dropped = list(requests)
        self.budget.leave(len(dropped), sum(request.size for request in dropped))

    def close(self) -> None:
        """Ends all workers."""
        for queue in (*self.fair_queues.values(), *self.busy_queues.values()):
            queue.close()

    def _backoff(self, busy_count: int) -> float:
        return min(self._backoff_s * (1 << min(busy_count, 16)), self._backoff_max_s)

    def _stand_again(self, pipeline: Pipeline) -> None:
        pipeline.resting = False
        self.stand(pipeline)


def _limits(kind: Kind, settings: ServerSettings) -> BatchLimits:
    if kind in SINGLY:
        return BatchLimits(1, settings.max_batch_bytes, 1)
    weight = settings.max_answer_bytes if kind in _RETURNING else settings.max_batch_bytes
    return BatchLimits(settings.max_batch, weight, settings.quantum)
