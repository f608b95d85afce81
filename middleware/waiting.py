"""Reads that found nothing and wait for a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from telesto.middleware.deadlines import Deadlines
from telesto.middleware.failures import Failure, failure_of
from telesto.middleware.requests import Read, WakeUp
from telesto.middleware.results import Arrivals
from telesto.middleware.waiting_queue import WaitingQueue
from telesto.protocol.errors import ErrorCode


class WaitingRoom:
    """Parks reads per queue, first come first served, and lets as many go on as messages come.

    A read scans, parks, and scans again once the database knows of this middleware's interest in the queue;
    from then on nothing can come unnoticed: what comes during a scan is remembered until the read parks. A
    wake-up that serves nobody is passed on.

    Attributes:
        clock: rises with every arrival.
        on_readmit: takes a read that is to scan again.
        on_answer: takes a read whose waiting is over, and the failure it is answered with; None for an empty
            answer.
        on_interest: takes a queue for which reads wait and whose puts elsewhere nobody tells of yet.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, reads_max: int) -> None:
        self._loop = loop
        self._reads_max = reads_max
        self._queues: dict[int, WaitingQueue] = {}
        self._deadlines = Deadlines(loop)
        self._parked = 0
        self._ticket = 0
        self._closed: Failure | None = None
        self.clock = 0
        self.on_readmit: Callable[[Read], None] = lambda read: None
        self.on_answer: Callable[[Read, Failure | None], None] = lambda read, failure: None
        self.on_interest: Callable[[int], None] = lambda queue_id: None

    @property
    def parked(self) -> int:
        """How many reads are parked."""
        return self._parked

    @property
    def queue_ids(self) -> list[int]:
        """The queues for which reads are parked."""
        return [queue_id for queue_id, queue in self._queues.items() if queue]

    # --- coming ------------------------------------------------------------------------------

    def settle_empty(self, read: Read, scanned_at: int) -> bool:
        """Decides what becomes of a waiting read that found nothing; returns False when it is over.

        Args:
            read: the read.
            scanned_at: the room's clock before its scan.
        """
        wait = read.wait
        assert wait is not None
        if self._closed is not None:
            self.on_answer(read, self._closed)
            return True
        if wait.over or (wait.deadline is not None and wait.deadline <= self._loop.time()):
            return False
        if wait.ticket == 0:
            self._ticket += 1
            wait.ticket = self._ticket
        queue = self._queues.get(wait.queue_id)
        if queue is not None:
            client_id = read.line.client.client_id
            receiver_id = queue.missed.claim(client_id, scanned_at, directed_only=wait.by_context)
            if receiver_id is not None:
                self._readmit(read, WakeUp(receiver_id, wait.ticket))
                return True
        if self._parked >= self._reads_max:
            self.on_answer(read, failure_of(ErrorCode.OVERLOADED, "too many reads wait"))
            return True
        self._park(read)
        return True

    def _park(self, read: Read) -> None:
        wait = read.wait
        assert wait is not None
        queue = self._queues.get(wait.queue_id)
        if queue is None:
            queue = self._queues[wait.queue_id] = WaitingQueue()
            self.on_interest(wait.queue_id)
        wait.parked = True
        queue.add(read)
        self._parked += 1
        if wait.deadline is not None:
            wait.entry = self._deadlines.add(wait.deadline, partial(self._expire, read))

    # --- going on ----------------------------------------------------------------------------

    def arrived(self, arrivals: Arrivals) -> None:
        """Messages came to queues: as many reads go on as may take one."""
        self.clock += 1
        for (queue_id, receiver_id), count in arrivals.items():
            queue = self._queues.get(queue_id)
            if queue is not None:
                woken = self._wake(queue, receiver_id, count)
                if woken < count:
                    queue.missed.add(receiver_id, count - woken, self.clock)

    def scanned(self, read: Read, took: list[int]) -> None:
        """A woken read has scanned and took messages for these receivers: the wake-up is used or passed on.

        It is used when the read took the message that it stands for, or when a read without conditions found
        that there is nothing.
        """
        wait = read.wait
        assert wait is not None
        wake_up, wait.wake_up = wait.wake_up, None
        if wake_up is None or wake_up.receiver_id in took:
            return
        if took or wait.selective:
            self._pass_on(wait.queue_id, wake_up, wait.ticket)

    def leave(self, read: Read) -> None:
        """A woken read ends without having scanned (fenced, failed, its connection gone)."""
        wait = read.wait
        assert wait is not None
        wake_up, wait.wake_up = wait.wake_up, None
        if wake_up is not None:
            self._pass_on(wait.queue_id, wake_up, wait.ticket)

    def look_again(self, queue_id: int, count: int | None = None) -> None:
        """Lets reads of a queue scan once more: all, or so many of them in turn."""
        queue = self._queues.get(queue_id)
        if queue is None:
            return
        reads = queue.all() if count is None else queue.some_after(queue.swept, count)
        for read in reads:
            assert read.wait is not None
            queue.swept = read.wait.ticket
            self._unpark(read)
            self._readmit(read, None)

    def _wake(self, queue: WaitingQueue, receiver_id: int, count: int) -> int:
        woken = 0
        while woken < count:
            read = queue.next_for(receiver_id, 0)
            if read is None:
                break
            assert read.wait is not None
            self._unpark(read)
            self._readmit(read, WakeUp(receiver_id, read.wait.ticket))
            woken += 1
        return woken

    def _pass_on(self, queue_id: int, wake_up: WakeUp, after: int) -> None:
        """Gives a wake-up to the next read, around the line once; then it is remembered as missed."""
        queue = self._queues.get(queue_id)
        if queue is None:
            return
        read = queue.next_for(wake_up.receiver_id, after)
        if read is None and not wake_up.wrapped:
            wake_up.wrapped = True
            read = queue.next_for(wake_up.receiver_id, 0)
        if read is None or (wake_up.wrapped and read.wait is not None and read.wait.ticket >= wake_up.origin):
            self.clock += 1
            queue.missed.add(wake_up.receiver_id, 1, self.clock)
            return
        self._unpark(read)
        self._readmit(read, wake_up)

    def _readmit(self, read: Read, wake_up: WakeUp | None) -> None:
        assert read.wait is not None
        read.wait.wake_up = wake_up
        read.wait.readmitted = True
        self.on_readmit(read)

    # --- leaving -----------------------------------------------------------------------------

    def cancel(self, read: Read) -> bool:
        """Ends the waiting of a read; returns True when it was parked, and answers it empty then."""
        assert read.wait is not None
        read.wait.over = True
        if not read.wait.parked:
            return False
        self._unpark(read)
        self.on_answer(read, None)
        return True

    def drop(self, reads: Iterable[Read]) -> None:
        """Forgets the reads of a connection that is gone."""
        for read in reads:
            assert read.wait is not None
            read.wait.over = True
            if read.wait.parked:
                self._unpark(read)

    def queue_deleted(self, queue_id: int) -> None:
        """A queue is gone: its reads are answered so."""
        queue = self._queues.pop(queue_id, None)
        if queue is None:
            return
        failure = failure_of(ErrorCode.QUEUE_NOT_EXISTING, f"queue {queue_id} was deleted", queue_id)
        self._answer_all(queue, failure)

    def close(self, failure: Failure) -> None:
        """Answers everybody; who comes from now on is answered at once."""
        self._closed = failure
        queues = list(self._queues.values())
        self._queues.clear()
        for queue in queues:
            self._answer_all(queue, failure)
        self._deadlines.close()

    def _answer_all(self, queue: WaitingQueue, failure: Failure) -> None:
        for read in queue.all():
            self._release(read, queue)
            self.on_answer(read, failure)

    def _expire(self, read: Read) -> None:
        assert read.wait is not None
        read.wait.over = True
        self._unpark(read)
        self.on_answer(read, None)

    def _unpark(self, read: Read) -> None:
        assert read.wait is not None
        queue = self._queues[read.wait.queue_id]
        self._release(read, queue)
        if not queue:
            queue.idle_since = self._loop.time()

    def _release(self, read: Read, queue: WaitingQueue) -> None:
        assert read.wait is not None
        queue.remove(read)
        self._deadlines.cancel(read.wait.entry)
        read.wait.parked = False
        self._parked -= 1

    # --- interest ----------------------------------------------------------------------------

    def interest_known(self, queue_id: int) -> None:
        """Others tell of puts to this queue from now on; what came before is found by scanning again."""
        queue = self._queues.get(queue_id)
        if queue is not None and not queue.interested:
            queue.interested = True
            self.look_again(queue_id)

    def forget_interests(self) -> list[int]:
        """The database has lost this middleware's interests; returns the queues to register again."""
        for queue in self._queues.values():
            queue.interested = False
        return list(self._queues)

    def pop_idle(self, idle_s: float, count: int) -> list[int]:
        """Forgets queues for which nobody has waited for so long; returns up to so many of them."""
        before = self._loop.time() - idle_s
        idle = [
            queue_id for queue_id, queue in self._queues.items() if not queue and queue.idle_since < before
        ]
        for queue_id in idle[:count]:
            del self._queues[queue_id]
        return idle[:count]
