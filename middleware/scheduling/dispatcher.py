"""Whose requests come next, and when a call for them may begin.

`Dispatcher` has a fair queue for each kind of request, and a fair queue forms batches. `CallPacing` says when
the call for a batch may begin, `Quarantine` keeps clients apart whose calls died, and `Budget` counts what is
under way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.requests import SINGLY, Kind, Pipeline, Read, Request

_GATHERED = (Kind.PUT, Kind.TAKE, Kind.TAKE_SELECTED, Kind.PUBLISH)
#: Of those that are not gathered, these may meet a lock.
_SINGLY_LOCKING = (Kind.SINGLE, Kind.LOGIN)
#: Calls of these kinds are limited by the bytes that they return, all others by those that they send.
_RETURNING = (Kind.TAKE, Kind.TAKE_SELECTED, Kind.FETCH)
#: The weight of the last call in the average.
_SHARE = 0.05
#: Concurrent calls take longer than sequential ones, so the average is reset after this time, in seconds.
_ANEW_S = 5.0


class Budget:
    """Counts the requests that were admitted and are neither answered nor parked, and their bytes.

    Attributes:
        requests: how many are under way.
        bytes: those of the requests, and of received data that waits or is an incomplete frame.
        unsent: bytes of answers that peers have not read.
    """

    __slots__ = ("_idle", "bytes", "requests", "unsent")

    def __init__(self) -> None:
        self._idle: asyncio.Event | None = None
        self.requests = 0
        self.bytes = 0
        self.unsent = 0

    def enter(self, requests: int, size: int) -> None:
        """Adds requests."""
        self.requests += requests
        self.bytes += size

    def leave(self, requests: int, size: int) -> None:
        """Removes requests that were answered, parked or dropped."""
        self.requests -= requests
        self.bytes -= size
        if self._idle is not None and self.requests == 0:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Returns when nothing is under way."""
        if self.requests:
            self._idle = asyncio.Event()
            await self._idle.wait()


class Dispatcher:
    """Has a fair queue for each kind of request, and puts a pipeline into that of its next request.

    Requests of one connection take effect in the order in which they were sent: a pipeline has one run in
    flight, and joins a queue again when each request of that run is answered, parked or given back.
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
        self.fair_queues = {kind: self._fair_queue(kind, settings) for kind in Kind}
        self.busy_queues: dict[Kind, FairQueue] = {
            kind: BusyFairQueue(kind, _limits(kind, settings), self.quarantine, queue_of)
            for kind in _GATHERED
        }
        self.busy_queues |= {kind: self._fair_queue(kind, settings) for kind in _SINGLY_LOCKING}

    def _fair_queue(self, kind: Kind, settings: ServerSettings) -> FairQueue:
        # Whoever logs in can open as many connections as there are places.
        pipelines = ByAddress() if kind is Kind.LOGIN else deque[Pipeline]()
        return FairQueue(kind, _limits(kind, settings), self.quarantine, pipelines)

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
        """A batch has ended: its pipelines may join a queue again."""
        for pipeline in batch.pipelines:
            pipeline.in_flight = False
            self.stand(pipeline)

    def rest(self, pipeline: Pipeline) -> None:
        """Requests of a run met a lock: the pipeline pauses, and its next run is for one queue only."""
        pipeline.apart = True
        pipeline.resting = True
        self._loop.call_later(self._backoff(pipeline.busy_count), self._stand_again, pipeline)
        pipeline.busy_count += 1

    def rest_read(self, read: Read, busy_count: int) -> None:
        """The same for a woken read, which is tried again without its pipeline."""
        queue = self.busy_queues.get(read.kind, self.fair_queues[read.kind])
        self._loop.call_later(self._backoff(busy_count), queue.readmit, read)

    def readmit(self, read: Read) -> None:
        """Has a parked read tried again."""
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


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of one call: requests, their weight in bytes, and a connection's share while others wait."""

    requests: int
    weight: int
    quantum: int


class Batch:
    """The requests of one call.

    Attributes:
        requests: in the order in which they take effect; readmitted reads come first.
        pipelines: those with a run in it.
    """

    __slots__ = ("pipelines", "requests")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.pipelines: list[Pipeline] = []


class ByAddress:
    """Pipelines that are taken from one address after the other, and first come first served from each."""

    __slots__ = ("_count", "_turns")

    def __init__(self) -> None:
        self._turns: dict[str, deque[Pipeline]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Pipeline]:
        return chain.from_iterable(self._turns.values())

    def append(self, pipeline: Pipeline) -> None:
        """Adds a pipeline behind the others of its address."""
        self._turns.setdefault(pipeline.address, deque()).append(pipeline)
        self._count += 1

    def appendleft(self, pipeline: Pipeline) -> None:
        """Puts a pipeline back; it is the next."""
        first = self._turns.pop(pipeline.address, deque())
        first.appendleft(pipeline)
        self._turns = {pipeline.address: first} | self._turns
        self._count += 1

    def popleft(self) -> Pipeline:
        """Takes the next pipeline, whose address has its next turn behind all others."""
        address, waiting = next(iter(self._turns.items()))
        del self._turns[address]
        pipeline = waiting.popleft()
        if waiting:
            self._turns[address] = waiting
        self._count -= 1
        return pipeline


class FairQueue:
    """Pipelines in order, and woken reads.

    Pipelines are taken from the front. When its run has been served and it has more requests, a pipeline
    joins the end of the queue of its next request's kind, so a connection with many requests does not delay
    others.
    """

    def __init__(
        self, kind: Kind, limits: BatchLimits, quarantine: Quarantine, pipelines: deque[Pipeline] | ByAddress
    ) -> None:
        self.kind = kind
        self._limits = limits
        self._quarantine = quarantine
        self._pipelines = pipelines
        self._readmitted: deque[Read] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._pipelines) + len(self._readmitted)

    def has_messages(self, count: int) -> bool:
        """Tells whether requests for at least this many messages have gathered."""
        left = count - len(self._readmitted)
        for pipeline in self._pipelines:
            if left <= 0:
                break
            left -= pipeline.messages_waiting(left)
        return left <= 0

    def join(self, pipeline: Pipeline) -> None:
        """Adds a pipeline at the end."""
        pipeline.standing = True
        self._pipelines.append(pipeline)
        if self._idle:
            self._wake_worker()

    def readmit(self, read: Read) -> None:
        """Adds a parked read that is tried again, ahead of the pipelines."""
        self._readmitted.append(read)
        if self._idle:
            self._wake_worker()

    def close(self) -> None:
        """Ends the workers, even if requests are left."""
        self._closed = True
        while self._idle:
            self._wake_worker()

    async def wait(self) -> bool:
        """Returns True when there is something to take, or False when the queue is closed."""
        while not self._closed and not self._pipelines and not self._readmitted:
            future = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future
        return not self._closed

    def take(self, restand: Callable[[Pipeline], None]) -> Batch:
        """Forms the next batch. A pipeline whose next request is now of another kind goes to ``restand``."""
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
        left = self._limits.requests - len(batch.requests)
        taken = pipeline.take_run(batch.requests, self.kind, min(share, left), weight)
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


class BusyFairQueue(FairQueue):
    """A queue of pipelines whose last call met a lock. Each of its calls is for one queue or topic.

    A call for one queue waits for that queue's lock, while a call for several skips the locked ones. So a
    queue that other middlewares lock all the time is served all the same.
    """

    def __init__(
        self, kind: Kind, limits: BatchLimits, quarantine: Quarantine, queue_of: Callable[[Request], Hashable]
    ) -> None:
        super().__init__(kind, limits, quarantine, deque())
        self._queue_of = queue_of

    def take(self, restand: Callable[[Pipeline], None]) -> Batch:
        """Forms a batch for the queue of the first request, or of that request alone if it is for several."""
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
                and self._has_space(batch)
            ):
                left -= self._take_same(pipeline, batch, head_queue, self._limits.quantum, left)
            else:
                self.join(pipeline)
        return batch

    def _has_space(self, batch: Batch) -> bool:
        return len(batch.requests) < self._limits.requests

    def _take_same(
        self, pipeline: Pipeline, batch: Batch, queue_id: Hashable, count: int, weight: int
    ) -> int:
        """Takes the first requests of a pipeline that are for a queue; one if the first is for several."""
        same = 1
        if queue_id:
            for request in islice(pipeline.requests, 1, count):
                if request.kind is not self.kind or self._queue_of(request) != queue_id:
                    break
                same += 1
        return self._take_run(pipeline, batch, min(same, count), weight)


class Quarantine:
    """Gives clients of a lost call separate calls for a while, so that a harmful request hurts no others."""

    def __init__(self, clock: Callable[[], float], duration_s: float, batch: int, clients_max: int) -> None:
        self._clock = clock
        self._duration_s = duration_s
        self._batch = batch
        self._max = clients_max
        self._until: dict[int, float] = {}

    def __len__(self) -> int:
        """How many clients are in quarantine now. Entries of others may be left if they send nothing more."""
        now = self._clock()
        return sum(until >= now for until in self._until.values())

    def add(self, client_ids: Iterable[int]) -> None:
        """Adds clients. The oldest are removed when there are too many."""
        until = self._clock() + self._duration_s
        for client_id in client_ids:
            self._until.pop(client_id, None)
            self._until[client_id] = until
        while len(self._until) > self._max:
            del self._until[next(iter(self._until))]

    def batch(self, client_id: int) -> int:
        """Returns how many requests of a client in quarantine a call may have; 0 for other clients."""
        if not self._until:
            return 0
        until = self._until.get(client_id)
        if until is None:
            return 0
        if until < self._clock():
            del self._until[client_id]
            return 0
        return self._batch


class PacedCall:
    """A call that may begin, or is under way.

    Attributes:
        begun: when it began, by the loop's clock in seconds.
        few: it is for few messages.
    """

    __slots__ = ("begun", "few")

    def __init__(self, begun: float, few: bool) -> None:
        self.begun = begun
        self.few = few


class CallPacing:
    """Decides when the calls of a middleware's batch workers begin: one after the other, or concurrently.

    Each call has a fixed cost beside that of its requests. While many requests are under way, a call that
    waits for the one before it finds more of them gathered. So where calls are quick, those for few requests
    run one after the other. Where a call takes long, because of the disk, a standby or a lock, they run
    concurrently.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        under_way: Callable[[], int],
        crowd: int,
        many: int,
        quick_s: float,
        wait_s: float,
    ) -> None:
        """Makes the pacing of one middleware.

        Args:
            clock: the loop's.
            under_way: returns how many requests are under way.
            crowd: with at most this many, no call waits for another.
            many: a call for at least this many messages begins at once.
            quick_s: calls wait only while calls that write, for few messages, take less than this on average.
            wait_s: no call waits longer than this, nor for a call that has already taken longer.
        """
        self._clock = clock
        self._under_way = under_way
        self._crowd = crowd
        self._many = many
        self._quick_s = quick_s
        self._wait_s = wait_s
        self._last: PacedCall | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._average_s = 0.0
        self._anew_at = 0.0

    async def begin(self, gathered: FairQueue) -> PacedCall:
        """Returns when a call for what has gathered may begin. ``end`` must follow."""
        few = not gathered.has_messages(self._many)
        if few and self._has_to_wait():
            await self._wait()
        turn = self._last = PacedCall(self._clock(), few)
        return turn

    def end(self, turn: PacedCall, *, wrote: bool) -> None:
        """The call has ended. ``wrote`` tells whether it committed changes, which is what takes time."""
        now = self._clock()
        if wrote and turn.few:
            self._note(now - turn.begun, now)
        if self._last is not turn:
            return
        self._last = None
        while self._waiting and self._last is None:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._last = PacedCall(now, False)  # no other call begins before it

    def _note(self, took_s: float, now: float) -> None:
        if self._average_s >= self._quick_s and now >= self._anew_at:
            self._average_s = 0.0
            self._anew_at = now + _ANEW_S
        self._average_s += _SHARE * (took_s - self._average_s)

    def _has_to_wait(self) -> bool:
        return (
            self._last is not None
            and self._clock() - self._last.begun < self._wait_s
            and self._average_s < self._quick_s
            and self._under_way() > self._crowd
        )

    async def _wait(self) -> None:
        """Waits for the end of the last call that began, at most for ``wait_s``."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiter)
        timer = loop.call_later(self._wait_s, _give_up, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)


def _give_up(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
