"""Queues of pipelines whose next request is of one kind, from which batches are taken."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import islice

from telesto.middleware.scheduling.quarantine import Quarantine
from telesto.middleware.scheduling.requests import NOBODY, Kind, Pipeline, Read, Request


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of one call: requests, their weight in bytes, and a connection's share while others wait."""

    requests: int
    weight: int
    quantum: int


class Batch:
    """The requests of one call.

    Attributes:
        requests: in the order in which they take effect; readmitted reads first.
        pipelines: those that have a run among them.
    """

    __slots__ = ("pipelines", "requests")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.pipelines: list[Pipeline] = []


class FairQueue:
    """Pipelines in order, and reads that were woken.

    A pipeline is taken from the front. When its run has been served and it has more requests, it joins the
    end of the queue of its next request's kind, so a connection with many requests does not delay the others.
    """

    def __init__(self, kind: Kind, limits: BatchLimits, quarantine: Quarantine) -> None:
        self.kind = kind
        self._limits = limits
        self._quarantine = quarantine
        self._pipelines: deque[Pipeline] = deque()
        self._readmitted: deque[Read] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._pipelines) + len(self._readmitted)

    def has_messages(self, count: int) -> bool:
        """Tells whether requests for so many messages, or more, have gathered."""
        left = count - len(self._readmitted)
        for pipeline in self._pipelines:
            if left <= 0:
                break
            left -= pipeline.messages_waiting(left)
        return left <= 0

    def join(self, pipeline: Pipeline) -> None:
        """A pipeline takes its place at the end."""
        pipeline.standing = True
        self._pipelines.append(pipeline)
        if self._idle:
            self._wake_worker()

    def readmit(self, read: Read) -> None:
        """A read that was parked is tried again, ahead of the pipelines."""
        self._readmitted.append(read)
        if self._idle:
            self._wake_worker()

    def close(self) -> None:
        """Ends the workers, whatever is left."""
        self._closed = True
        while self._idle:
            self._wake_worker()

    async def wait(self) -> bool:
        """Returns True once there is something to take, False when the queue is closed."""
        while not self._closed and not self._pipelines and not self._readmitted:
            future = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future
        return not self._closed

    def take(self, restand: Callable[[Pipeline], None]) -> Batch:
        """Forms the next batch; a pipeline whose head is of another kind by now goes to ``restand``."""
        batch = Batch()
        left = self._limits.weight - self._take_readmitted(batch)
        share = max(self._limits.quantum, self._limits.requests // max(1, len(self._pipelines)))
        while self._pipelines and len(batch.requests) < self._limits.requests and left > 0:
            pipeline = self._pipelines.popleft()
            pipeline.standing = False
            if not pipeline.requests or pipeline.requests[0].kind is not self.kind or pipeline.held:
                restand(pipeline)
                continue
            apart = self._quarantine.batch(pipeline.client.client_id)
            if batch.requests and (apart or pipeline.requests[0].weight > left):
                self._put_back(pipeline)
                break
            left -= self._take_run(pipeline, batch, apart or share, left)
            if apart:
                break
        return batch

    def _take_run(self, pipeline: Pipeline, batch: Batch, share: int, weight: int) -> int:
        pipeline.in_flight = True
        batch.pipelines.append(pipeline)
        room = self._limits.requests - len(batch.requests)
        taken = pipeline.take_run(batch.requests, self.kind, min(share, room), weight)
        if pipeline.drained is not None:
            pipeline.drained()
        return taken

    def _take_readmitted(self, batch: Batch) -> int:
        taken = 0
        while self._readmitted and len(batch.requests) < self._limits.requests:
            read = self._readmitted[0]
            if taken and taken + read.weight > self._limits.weight:
                return self._limits.weight
            batch.requests.append(self._readmitted.popleft())
            taken += read.weight
        return taken

    def _put_back(self, pipeline: Pipeline) -> None:
        pipeline.standing = True
        self._pipelines.appendleft(pipeline)

    def _wake_worker(self) -> None:
        future = self._idle.popleft()
        if not future.done():
            future.set_result(None)


class SingleFairQueue(FairQueue):
    """A queue of single requests: every other one is of a connection that identifies itself, if one waits."""

    def __init__(self, kind: Kind, limits: BatchLimits, quarantine: Quarantine) -> None:
        super().__init__(kind, limits, quarantine)
        self._newcomers: deque[Pipeline] = deque()
        self._was_newcomer = False

    def __len__(self) -> int:
        return super().__len__() + len(self._newcomers)

    def join(self, pipeline: Pipeline) -> None:
        """A pipeline takes its place at the end, of the newcomers or of the others."""
        if pipeline.client is NOBODY and self._pipelines:
            pipeline.standing = True
            self._newcomers.append(pipeline)
            if self._idle:
                self._wake_worker()
        else:
            super().join(pipeline)

    def take(self, restand: Callable[[Pipeline], None]) -> Batch:
        """Takes the next request, of a newcomer if the one before was none."""
        if self._newcomers and (not self._was_newcomer or not self._pipelines):
            self._pipelines.appendleft(self._newcomers.popleft())
        batch = super().take(restand)
        self._was_newcomer = bool(batch.pipelines) and batch.pipelines[0].client is NOBODY
        if self._newcomers and not self._pipelines:
            super().join(self._newcomers.popleft())
        return batch


class BusyFairQueue(FairQueue):
    """A queue of those whose last call found something busy: each call is for one queue or topic.

    A call for one queue waits for that queue's lock, where a call for several gives up the queues that are
    locked; so a queue that is always in use elsewhere is served all the same.
    """

    def __init__(
        self, kind: Kind, limits: BatchLimits, quarantine: Quarantine, queue_of: Callable[[Request], Hashable]
    ) -> None:
        super().__init__(kind, limits, quarantine)
        self._queue_of = queue_of

    def take(self, restand: Callable[[Pipeline], None]) -> Batch:
        """Forms a batch for the queue of the first, or of the first alone if it is for several."""
        batch = Batch()
        if self._readmitted:
            batch.requests.append(self._readmitted.popleft())
            return batch
        queue_id: Hashable = 0
        left = self._limits.weight
        for _ in range(len(self._pipelines)):
            pipeline = self._pipelines.popleft()
            pipeline.standing = False
            if not pipeline.requests or pipeline.requests[0].kind is not self.kind or pipeline.held:
                restand(pipeline)
                continue
            head = pipeline.requests[0]
            head_queue = self._queue_of(head)
            quarantined = self._quarantine.batch(pipeline.client.client_id)
            if not batch.requests:
                queue_id = 0 if quarantined else head_queue
                left -= self._take_same(
                    pipeline, batch, head_queue, quarantined or self._limits.quantum, left
                )
            elif (
                head_queue == queue_id != 0
                and not quarantined
                and head.weight <= left
                and self._has_room(batch)
            ):
                left -= self._take_same(pipeline, batch, head_queue, self._limits.quantum, left)
            else:
                self.join(pipeline)
        return batch

    def _has_room(self, batch: Batch) -> bool:
        return len(batch.requests) < self._limits.requests

    def _take_same(
        self, pipeline: Pipeline, batch: Batch, queue_id: Hashable, count: int, weight: int
    ) -> int:
        """Takes the requests at a pipeline's head that are for a queue; one if the first is for several."""
        same = 1
        if queue_id:
            for request in islice(pipeline.requests, 1, count):
                if request.kind is not self.kind or self._queue_of(request) != queue_id:
                    break
                same += 1
        return self._take_run(pipeline, batch, min(same, count), weight)
