"""The workers that execute requests of one kind in batches."""

from __future__ import annotations

import asyncio
from time import perf_counter

from telesto.middleware.common.failures import Failure, busy_too_long
from telesto.middleware.execution.batch_effects import BatchEffects
from telesto.middleware.execution.bisecting_executor import BisectingExecutor
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.metrics.tracing import Tracer
from telesto.middleware.scheduling.call_pacing import CallPacing
from telesto.middleware.scheduling.dispatcher import Dispatcher
from telesto.middleware.scheduling.fair_queue import Batch, FairQueue
from telesto.middleware.scheduling.outcomes import Mark, Results, error_frame
from telesto.middleware.scheduling.requests import Kind, Pipeline, Read, Request, Wait

#: Their calls take about as long as a commit does; those of reads take longer the more they return.
_WRITING = (Kind.PUT, Kind.PUBLISH, Kind.ACK, Kind.CONFIRM)


class BatchWorker:
    """Takes the requests that have gathered, executes them in one call, answers them, and repeats.

    There is no timer: the next batch forms while the call runs, or while that of another worker does.
    """

    def __init__(
        self,
        queue: FairQueue,
        dispatcher: Dispatcher,
        executor: BisectingExecutor,
        effects: BatchEffects,
        counters: Counters,
        tracer: Tracer,
        pace: CallPacing,
        busy_limit_s: float,
        retry_ms: int,
    ) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._executor = executor
        self._effects = effects
        self._counters = counters
        self._tracer = tracer
        self._pace = pace
        self._busy_limit_s = busy_limit_s
        self._retry_ms = retry_ms
        self._clock = asyncio.get_running_loop().time

    async def run(self) -> None:
        """Works until the queue is closed."""
        while await self._queue.wait():
            turn = await self._pace.begin(self._queue)
            wrote = False
            try:
                batch = self._queue.take(self._dispatcher.stand)
                if batch.requests:
                    wrote = await self._serve(batch)
            finally:
                self._pace.end(turn, wrote=wrote)

    async def _serve(self, batch: Batch) -> bool:
        """Executes and answers a batch; returns whether its call wrote and did little else."""
        requests = self._effects.before(batch.requests)
        wrote = False
        if requests:
            begun = perf_counter()
            scanned_at = self._effects.clock
            followed = self._tracer.called(requests)
            results = await self._executor.run(requests)
            self._counters.called(self._queue.kind, len(requests), perf_counter() - begun)
            self._tracer.returned(followed)
            self._settle(requests, results, scanned_at)
            self._tracer.settled(followed, requests, results.outcomes)
            wrote = self._queue.kind in _WRITING and any(
                type(outcome) is bytes for outcome in results.outcomes
            )
        self._dispatcher.served(batch)
        return wrote

    def _settle(self, requests: list[Request], results: Results, scanned_at: int) -> None:
        self._effects.after(requests, results)
        again: dict[Pipeline, list[Request]] = {}
        busy: set[Pipeline] = set()
        answered = 0
        size = 0
        for request, outcome in zip(requests, results.outcomes, strict=True):
            if type(outcome) is bytes:
                request.pipeline.send(outcome)
                answered += 1
                size += request.size
            elif outcome is Mark.NOTHING:
                self._effects.found_nothing(request, scanned_at)
                answered += 1
                size += request.size
            elif isinstance(request, Read) and request.wait is not None and request.wait.readmitted:
                self._read_again(request, request.wait, outcome is Mark.BUSY)
            else:
                again.setdefault(request.pipeline, []).append(request)
                if outcome is Mark.BUSY:
                    busy.add(request.pipeline)
        self._dispatcher.budget.leave(answered, size)
        self._give_back(again, busy)
        for pipeline in {request.pipeline for request in requests if request.pipeline.busy_count}.difference(
            busy
        ):
            pipeline.busy_count = 0
            pipeline.apart = False
        self._effects.end_fenced(results)

    def _give_back(self, again: dict[Pipeline, list[Request]], busy: set[Pipeline]) -> None:
        """Puts requests that were not executed back to the heads of their pipelines; busy pipelines rest."""
        now = self._clock()
        for pipeline, requests in again.items():
            if pipeline.closed:
                self._dispatcher.drop(requests)
                continue
            if pipeline in busy:
                if pipeline.busy_count == 0:
                    pipeline.busy_since = now
                elif now - pipeline.busy_since > self._busy_limit_s:
                    pipeline.busy_since = now
                    self._give_up(requests.pop(0))
                self._dispatcher.rest(pipeline)
            pipeline.give_back(requests)

    def _read_again(self, read: Read, wait: Wait, busy: bool) -> None:
        """Tries a read again that was parked and does not stand in its pipeline."""
        now = self._clock()
        if not busy:
            self._queue.readmit(read)
        elif wait.busy_since and now - wait.busy_since > self._busy_limit_s:
            self._effects.leave(read)
            self._give_up(read)
        else:
            wait.busy_since = wait.busy_since or now
            self._dispatcher.rest_read(read, wait.busy_count)
            wait.busy_count += 1

    def _give_up(self, request: Request) -> None:
        self._answer(request, busy_too_long(self._retry_ms))

    def _answer(self, request: Request, failure: Failure) -> None:
        self._dispatcher.budget.leave(1, request.size)
        self._effects.failed(request, failure)
        request.pipeline.send(error_frame(request.packet_id, failure))
