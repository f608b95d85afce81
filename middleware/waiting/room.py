"""Reads and gets that found nothing and wait for a message, and who is told when messages come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from telesto.db import calls
from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.failures import Failure, failure_of
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.scheduling.requests import Arrivals, Kind, Pipeline, Read, Wait, WakeUp
from telesto.middleware.scheduling.single_request import Call
from telesto.middleware.waiting.queue import WaitingQueue, Watcher
from telesto.middleware.waiting.topic import WaitingTopic
from telesto.protocol.errors import ErrorCode


class WaitingRoom:
    """Parks reads of queues and gets of topics until messages arrive.

    Of a queue's reads it wakes as many as messages arrive, first come first served; of a topic's gets all.

    The channels of topics are negative, those of queues are not.

    A read scans, parks, and scans again once this middleware's interest in the queue is registered in the
    database. From then on no message can arrive unnoticed: one that arrives during a scan is remembered until
    the read parks. A wake-up that serves no read is passed on.

    Attributes:
        clock: rises with every arrival.
        unregistered: the channels in which this middleware's interest is not registered yet.
        interest_wanted: set when there is one more of them.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        readmit: Callable[[Read], None],
        answer: Callable[[Read, Failure | None], None],
        whose_read_yields: Callable[[Pipeline, int, int], Pipeline | None],
    ) -> None:
        """Makes an empty waiting room.

        Args:
            loop: the event loop.
            readmit: gets a read that has to scan again.
            answer: gets a read whose wait has ended, and the failure to answer with; None for an empty
                answer.
            whose_read_yields: that of ``Quotas``.
        """
        self._loop = loop
        self._readmit_read = readmit
        self._answer = answer
        self._whose_read_yields = whose_read_yields
        self._places: dict[int, WaitingQueue | WaitingTopic] = {}
        self._deadlines = Deadlines(loop)
        self._parked = 0
        self._parked_at: dict[str, int] = {}
        self._ticket = 0
        self._closed: Failure | None = None
        self._everything: dict[int, dict[Read, None]] = {}
        self._changed_at = 0
        self.clock = 0
        self.unregistered: dict[int, None] = {}
        self.interest_wanted = asyncio.Event()

    @property
    def parked(self) -> int:
        """How many reads are parked."""
        return self._parked

    @property
    def channels(self) -> list[int]:
        """The channels for which reads are parked, and those that are watched."""
        return [channel for channel, place in self._places.items() if place or place.watcher]

    # --- coming ------------------------------------------------------------------------------

    def settle_empty(self, read: Read, scanned_at: int) -> bool:
        """Parks a waiting read that found nothing, or has it scan again. Returns False if its wait has ended.

        Args:
            read: the read.
            scanned_at: the waiting room's clock before its scan.
        """
        wait = read.wait
        assert wait is not None
        if self._closed is not None:
            self._answer(read, self._closed)
            return True
        if wait.over or (wait.deadline is not None and wait.deadline <= self._loop.time()):
            return False
        if wait.ticket == 0:
            self._ticket += 1
            wait.ticket = self._ticket
        if self._scans_again(read, wait, scanned_at):
            return True
        at_address = self._parked_at.get(read.pipeline.address, 0)
        yields = self._whose_read_yields(read.pipeline, self._parked, at_address)
        if yields is not None:
            self._yield(read if yields is read.pipeline else next(_parked_last(yields)))
        if yields is not read.pipeline:
            self._park(read)
        return True

    def _yield(self, read: Read) -> None:
        """Refuses a read that waits or is about to wait."""
        assert read.wait is not None
        if read.wait.parked:
            self._unpark(read)
        self._answer(read, failure_of(ErrorCode.OVERLOADED, "too many reads wait"))

    def _scans_again(self, read: Read, wait: Wait, scanned_at: int) -> bool:
        """Has a read scan again if something arrived during its scan. Tells whether it did."""
        if read.kind is Kind.FETCH and self._changed_at > scanned_at:
            self._readmit(read, None)
            return True
        for channel in wait.channels:
            place = self._places.get(channel)
            if isinstance(place, WaitingTopic):
                if place.arrived_at > scanned_at:
                    self._readmit(read, None)
                    return True
            elif place is not None:
                client_id = read.pipeline.client.client_id
                receiver_id = place.missed.claim(client_id, scanned_at, directed_only=wait.by_context)
                if receiver_id is not None:
                    self._readmit(read, WakeUp(receiver_id, wait.ticket))
                    return True
        return False

    def _park(self, read: Read) -> None:
        wait = read.wait
        assert wait is not None
        for channel in wait.channels:
            self._place(channel).add(read)
        if wait.everything:
            self._everything.setdefault(read.pipeline.client.client_id, {})[read] = None
        wait.parked = True
        self._count_parked(read.pipeline, 1)
        if wait.deadline is not None:
            wait.entry = self._deadlines.add(wait.deadline, partial(self._expire, read))

    def _place(self, channel: int) -> WaitingQueue | WaitingTopic:
        place = self._places.get(channel)
        if place is None:
            place = self._places[channel] = WaitingQueue() if channel > 0 else WaitingTopic()
            self.unregistered[channel] = None
            self.interest_wanted.set()
        return place

    # --- watching ----------------------------------------------------------------------------

    def watch(self, queue_id: int, watcher: Watcher) -> None:
        """Calls a watcher whenever a queue may have a message, and when it is deleted."""
        self._place(queue_id).watcher = watcher

    def unwatch(self, queue_id: int) -> None:
        """Removes the watcher of a queue. Without parked reads its place may be removed."""
        place = self._places.get(queue_id)
        if place is not None:
            place.watcher = None
            place.idle_since = self._loop.time()

    # --- going on ----------------------------------------------------------------------------

    def arrived(self, arrivals: Arrivals) -> None:
        """Messages arrived: wakes as many reads of a queue as can take one, and all gets of a topic."""
        self.clock += 1
        for (channel, receiver_id), count in arrivals.items():
            place = self._places.get(channel)
            if isinstance(place, WaitingTopic):
                place.arrived_at = self.clock
                self.scan_again(place.all())
            elif place is not None:
                if place.watcher:
                    place.watcher.arrived(channel)
                woken = self._wake(place, receiver_id, count)
                if woken < count:
                    place.missed.add(receiver_id, count - woken, self.clock)

    def subscription_changed(self, client_id: int, channel: int) -> None:
        """A client's subscription of a topic began or ended, so its gets scan again.

        Gets of all clients that are scanning now scan again, too. This is rare.
        """
        self.clock += 1
        self._changed_at = self.clock
        place = self._places.get(channel)
        concerned = place.of_client(client_id) if isinstance(place, WaitingTopic) else []
        self.scan_again(dict.fromkeys([*concerned, *self._everything.get(client_id, ())]))

    def topic_stands_at(self, channel: int, last_number: int) -> None:
        """Has the gets of a topic scan again if its last number has changed since the last call."""
        place = self._places.get(channel)
        if isinstance(place, WaitingTopic) and place.last_number != last_number:
            place.last_number = last_number
            self.scan_again(place.all())

    def scanned(self, read: Read, took: list[int]) -> None:
        """A woken read has scanned and took messages for these receivers: its wake-up is used or passed on.

        The wake-up is used if the read took its message, or if a read without conditions found nothing.
        """
        wait = read.wait
        assert wait is not None
        wake_up, wait.wake_up = wait.wake_up, None
        if wake_up is None or wake_up.receiver_id in took:
            return
        if took or wait.selective:
            self._pass_on(wait.channels[0], wake_up, wait.ticket)

    def leave(self, read: Read) -> None:
        """A woken read ends without a scan (it was fenced, failed or lost its connection)."""
        wait = read.wait
        assert wait is not None
        wake_up, wait.wake_up = wait.wake_up, None
        if wake_up is not None:
            self._pass_on(wait.channels[0], wake_up, wait.ticket)

    def look_again(self, channel: int, count: int | None = None) -> None:
        """Has reads of a queue scan again, all or ``count`` of them in turn, or all gets of a topic."""
        place = self._places.get(channel)
        if isinstance(place, WaitingTopic):
            self.scan_again(place.all())
        elif place is not None:
            if place.watcher:
                place.watcher.arrived(channel)
            reads = place.all() if count is None else place.some_after(place.swept, count)
            if reads and reads[-1].wait is not None:
                place.swept = reads[-1].wait.ticket
            self.scan_again(reads)

    def scan_again(self, reads: Iterable[Read]) -> None:
        """Has parked reads scan again."""
        for read in reads:
            self._unpark(read)
            self._readmit(read, None)

    def readmit(self, read: Read) -> None:
        """Has a read scan again that is not parked."""
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
        """Passes a wake-up to the next read. When all reads had it, it is remembered as missed."""
        queue = self._places.get(queue_id)
        if not isinstance(queue, WaitingQueue):
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
        self._readmit_read(read)

    # --- leaving -----------------------------------------------------------------------------

    def cancel(self, read: Read) -> bool:
        """Ends the wait of a read. If it was parked, answers it empty and returns True."""
        assert read.wait is not None
        read.wait.over = True
        if not read.wait.parked:
            return False
        self._unpark(read)
        self._answer(read, None)
        return True

    def drop(self, reads: Iterable[Read]) -> None:
        """Removes the reads of a lost connection."""
        for read in reads:
            assert read.wait is not None
            read.wait.over = True
            if read.wait.parked:
                self._unpark(read)

    def queue_deleted(self, queue_id: int) -> None:
        """A queue was deleted: answers its reads."""
        queue = self._places.pop(queue_id, None)
        if queue is None:
            return
        if queue.watcher:
            queue.watcher.deleted(queue_id)
        failure = failure_of(ErrorCode.QUEUE_NOT_EXISTING, f"queue {queue_id} was deleted", queue_id)
        for read in queue.all():
            self._release(read)
            self._answer(read, failure)

    def close(self, failure: Failure) -> None:
        """Answers all reads. Reads that come later are answered at once."""
        self._closed = failure
        for place in list(self._places.values()):
            for read in place.all():
                self._unpark(read)
                self._answer(read, failure)
        self._places.clear()
        self._deadlines.close()

    def _expire(self, read: Read) -> None:
        assert read.wait is not None
        read.wait.over = True
        self._unpark(read)
        self._answer(read, None)

    def _unpark(self, read: Read) -> None:
        assert read.wait is not None
        for channel in read.wait.channels:
            place = self._places[channel]
            place.remove(read)
            if not place:
                place.idle_since = self._loop.time()
        self._release(read)

    def _release(self, read: Read) -> None:
        assert read.wait is not None
        self._deadlines.cancel(read.wait.entry)
        if read.wait.everything:
            client_id = read.pipeline.client.client_id
            del self._everything[client_id][read]
            if not self._everything[client_id]:
                del self._everything[client_id]
        read.wait.parked = False
        self._count_parked(read.pipeline, -1)

    def _count_parked(self, pipeline: Pipeline, change: int) -> None:
        pipeline.parked += change
        self._parked += change
        at_address = self._parked_at.pop(pipeline.address, 0) + change
        if at_address:
            self._parked_at[pipeline.address] = at_address

    # --- interest ----------------------------------------------------------------------------

    def interest_known(self, channel: int) -> None:
        """The interest in a channel is registered. Its reads scan again to find what arrived before."""
        self.unregistered.pop(channel, None)
        place = self._places.get(channel)
        if place is not None and not place.interested:
            place.interested = True
            self.look_again(channel)

    def forget_interests(self) -> None:
        """The database has lost this middleware's interests. They have to be registered again."""
        for channel, place in self._places.items():
            place.interested = False
            self.unregistered[channel] = None
        self.interest_wanted.set()

    def pop_idle(self, idle_s: float, count: int) -> list[int]:
        """Removes up to ``count`` channels for which no read has waited for ``idle_s``. Returns them."""
        before = self._loop.time() - idle_s
        idle = [
            channel
            for channel, place in self._places.items()
            if not place and not place.watcher and place.idle_since < before
        ]
        for channel in idle[:count]:
            del self._places[channel]
        return idle[:count]


def _parked_last(pipeline: Pipeline) -> Iterator[Read]:
    """Yields the parked reads of a connection, the last first."""
    return (
        read for read in reversed(pipeline.waiting.values()) if read.wait is not None and read.wait.parked
    )


class Announcer:
    """Wakes reads and consumers of this middleware, and notifies the others."""

    def __init__(self, room: WaitingRoom, tell_others: Callable[[Arrivals], None]) -> None:
        """``tell_others`` is `Notifier.tell`. A count of 0 means that a queue was deleted."""
        self._room = room
        self._tell_others = tell_others

    def arrived(self, arrivals: Arrivals) -> None:
        """Messages arrived in queues or topics, or came back."""
        self._room.arrived(arrivals)
        self._tell_others(arrivals)

    def ready_elsewhere(self, queue_id: int) -> None:
        """Consumers of other middlewares can claim from a queue."""
        self._tell_others({(queue_id, 0): 1})

    def queue_deleted(self, queue_id: int) -> None:
        """A queue was deleted. Reads and consumers of all middlewares get an error."""
        self._room.queue_deleted(queue_id)
        self._tell_others({(queue_id, 0): 0})


class Notifier:
    """Gathers which messages arrived and notifies other middlewares, at most once in an interval.

    A NOTIFY takes a lock of the whole server when it commits. So it is not sent by the puts, and only for
    queues in which another middleware is interested. It is a hint: the others' sweeps find what it does not
    announce.
    """

    def __init__(
        self, call: Call, peers: Peers, counters: Counters, interval_ms: int, entries_max: int
    ) -> None:
        self._call = call
        self._peers = peers
        self._counters = counters
        self._entries_max = entries_max
        self._arrivals: Arrivals = {}
        self.work = Periodic("notify", self.send, period_s=None, spacing_s=interval_ms / 1000)

    def tell(self, arrivals: Arrivals) -> None:
        """Notes messages that were committed. A count of 0 means that the queue was deleted."""
        if not self._peers.others:
            return
        for key, count in arrivals.items():
            if key in self._arrivals or len(self._arrivals) < self._entries_max:
                self._arrivals[key] = self._arrivals.get(key, 0) + count
            else:
                self._counters.dropped_wake_ups_total += 1
        self.work.poke()

    async def send(self) -> None:
        """Sends what has gathered. Raises what Call raises."""
        arrivals, self._arrivals = self._arrivals, {}
        if not arrivals:
            return
        await self._call(
            *calls.notify_puts(
                middleware_id=self._peers.middleware_id,
                queue_ids=[queue_id for queue_id, _ in arrivals],
                receiver_ids=[receiver_id for _, receiver_id in arrivals],
                counts=list(arrivals.values()),
            )
        )
        self._counters.notifies_total += 1
