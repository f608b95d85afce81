"""Workers that execute requests of one kind in batches, and the effects of a batch beyond its answers."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import cast

from telesto.middleware.common.budget import Budget
from telesto.middleware.common.failures import Failure, busy_too_long
from telesto.middleware.consumers.behaviour_monitor import BehaviourMonitor
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.execution.bisecting_executor import BisectingExecutor
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.metrics.tracing import Tracer
from telesto.middleware.procedures.empty import answer_read
from telesto.middleware.scheduling.call_pacing import CallPacing
from telesto.middleware.scheduling.dispatcher import Batch, Dispatcher, FairQueue
from telesto.middleware.scheduling.expected_size import ExpectedSizes
from telesto.middleware.scheduling.ordering import mark_refused, note_failed, note_full, refused_for_now
from telesto.middleware.scheduling.outcomes import Mark, Results, error_frame
from telesto.middleware.scheduling.requests import Kind, Pipeline, Read, Request, Wait, topic_channel
from telesto.middleware.scheduling.single_request import Reply
from telesto.middleware.waiting.room import Announcer, WaitingRoom

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
            tracer = self._tracer
            followed = tracer.called(requests) if tracer.on else None
            results = await self._executor.run(requests)
            self._counters.called(self._queue.kind, len(requests), perf_counter() - begun)
            if followed:
                tracer.returned(followed)
            self._settle(requests, results, scanned_at)
            if followed:
                tracer.settled(followed, requests, results.outcomes)
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


class BatchEffects:
    """Wakes and parks reads, settles consumers' messages, ends fenced connections."""

    def __init__(
        self,
        room: WaitingRoom,
        announcer: Announcer,
        consumers: ConsumerRegistry,
        monitor: BehaviourMonitor,
        budget: Budget,
        expected_sizes: ExpectedSizes,
    ) -> None:
        self._room = room
        self._announcer = announcer
        self._consumers = consumers
        self._monitor = monitor
        self._budget = budget
        self._expected_sizes = expected_sizes

    @property
    def clock(self) -> int:
        """The waiting room's clock."""
        return self._room.clock

    def before(self, requests: list[Request]) -> list[Request]:
        """Answers the requests that must not be executed (any more); returns the others."""
        if requests and isinstance(requests[0], Read):
            reads = cast(list[Read], requests)
            requests = [read for read in reads if read.wait is None or not self._is_over(read, read.wait)]
        if not any(request.pipeline.refused or request.pipeline.refusing for request in requests):
            return requests
        return [request for request in requests if not self._is_refused(request)]

    def _is_refused(self, request: Request) -> bool:
        """Refuses a request that must not overtake one that was refused for now."""
        failure = refused_for_now(request)
        if failure is None:
            mark_refused(request)
            return False
        self.unrecorded(request)
        self._budget.leave(1, request.size)
        if isinstance(request, Read):
            self.leave(request)
        request.pipeline.send(error_frame(request.packet_id, failure))
        return True

    def _is_over(self, read: Read, wait: Wait) -> bool:
        """Ends a read that was cancelled, or has lost its connection, after it was woken.

        In its first turn it may carry confirmations, which only a call applies.
        """
        if not wait.over or (read.confirms and not wait.readmitted):
            return False
        self._room.leave(read)
        self._budget.leave(1, read.size)
        answer_read(read)
        return True

    def after(self, requests: list[Request], results: Results) -> None:
        """Does what follows from a batch as a whole."""
        if results.arrivals:
            self._announcer.arrived(results.arrivals)
        for request, queue_id in results.full:
            note_full(request, queue_id)
        for request in results.unrecorded:
            self.unrecorded(request)
        for request, failure in results.failed:
            note_failed(request, failure)
        if results.settled:
            self._consumers.settled(results.settled)
        for queue_id, weight in results.heavy.items():
            self._expected_sizes.note(queue_id, weight)
        if requests and isinstance(requests[0], Read):
            self._settle_reads(requests, results)

    def end_fenced(self, results: Results) -> None:
        """Closes the connections whose sessions are over, once their answers are on the way."""
        for pipeline in {request.pipeline for request in results.fenced}:
            pipeline.finish()

    def after_reply(self, request: Request, reply: Reply) -> None:
        """Does what follows from the answer to a single request."""
        if reply.arrivals:
            self._announcer.arrived(reply.arrivals)
        if reply.touched is not None:
            self._monitor.touched(reply.touched, reply.settled)
        if reply.settled:
            self._consumers.settled(reply.settled)
        if reply.lost:
            self._consumers.came_back(reply.lost)
        if reply.failed:
            self._monitor.failed(reply.failed)
        if reply.deleted_queue:
            self._announcer.queue_deleted(reply.deleted_queue)
        if reply.changed_topic:
            client_id = request.pipeline.client.client_id
            self._room.subscription_changed(client_id, topic_channel(reply.changed_topic))

    def found_nothing(self, request: Request, scanned_at: int) -> None:
        """A read found nothing: it waits on, or is answered empty."""
        assert isinstance(request, Read)
        if request.wait is not None:
            self._room.scanned(request, [])
            if self._room.settle_empty(request, scanned_at):
                request.applied()
                return
        answer_read(request)

    def leave(self, read: Read) -> None:
        """A read ends without having scanned."""
        if read.wait is not None:
            self._room.leave(read)
            read.pipeline.waiting.pop(read.packet_id, None)

    def unrecorded(self, request: Request) -> None:
        """Nothing of a request is recorded, so nothing of it is unconfirmed."""
        request.pipeline.forget_number(getattr(request.packet, "number", 0))

    def failed(self, request: Request, failure: Failure) -> None:
        """A request failed as a whole, outside a batch."""
        if not failure.recorded:
            self.unrecorded(request)
        note_failed(request, failure)

    def _settle_reads(self, requests: list[Request], results: Results) -> None:
        taken = dict(results.handed)
        for request, receivers in results.handed:
            if len(receivers) > 1 and request.packet.number in request.pipeline.unconfirmed:
                request.pipeline.unconfirmed[request.packet.number] = len(receivers)
        for request, outcome in zip(requests, results.outcomes, strict=True):
            assert isinstance(request, Read)
            wait = request.wait
            if wait is None or isinstance(outcome, Mark):
                continue
            request.pipeline.waiting.pop(request.packet_id, None)
            if request in taken:
                self._room.scanned(request, taken[request])
            else:
                self._room.leave(request)
