"""The consumers of this middleware, the messages that they have, and when to claim for them."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from telesto.middleware.common.failures import Failure, failure_of
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.behaviour import NO_LIMITS, BehaviourLimits
from telesto.middleware.consumers.consumer import Consumer, LeaseKey
from telesto.middleware.consumers.consumer_changes import ConsumerChanges
from telesto.middleware.consumers.leaving_consumers import LeavingConsumers
from telesto.middleware.consumers.queue import ConsumedQueue
from telesto.middleware.scheduling.requests import Pipeline, error_frame
from telesto.middleware.waiting.queue import Watcher
from telesto.middleware.waiting.room import WaitingRoom
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import LeaseRef


class ConsumerRegistry:
    """Holds the consumers, and the queues that are due to be claimed from.

    A queue waits to be claimed from when it may hold messages and a consumer has credit left. ``awake``
    becomes false when a claim found less than it asked for, and true with every sign that there may be more.
    ``ready`` says the same of the partitions of one consumer.

    Attributes:
        by_id: the consumers by their ids.
        queues: the queues that they consume from, by their ids.
        became_due: set when a queue has come to stand in an empty line.
        draining: the middleware is about to stop: nothing more is claimed.
    """

    def __init__(
        self, room: WaitingRoom, leaving: LeavingConsumers, changes: ConsumerChanges, settings: ServerSettings
    ) -> None:
        self._room = room
        self._watcher = Watcher(self.look, self.queue_deleted)
        self._leaving = leaving
        self._changes = changes
        self._max_credit = settings.max_credit
        self.by_id: dict[int, Consumer] = {}
        self.queues: dict[int, ConsumedQueue] = {}
        self._due: deque[ConsumedQueue] = deque()
        self.draining = False
        self.became_due = asyncio.Event()

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def held(self) -> int:
        """How many messages the consumers have."""
        return sum(consumer.held for consumer in self.by_id.values())

    @property
    def failing(self) -> int:
        """How many of them fail everything."""
        return sum(consumer.failing for consumer in self.by_id.values())

    # --- coming and going --------------------------------------------------------------------

    def join(
        self,
        consumer_id: int,
        queue_id: int,
        pipeline: Pipeline,
        messages: int,
        size: int,
        limits: BehaviourLimits = NO_LIMITS,
        lease_s: float = math.inf,
    ) -> None:
        """A consumer has joined in the database; one whose connection is gone meanwhile leaves at once."""
        credit = min(messages, self._max_credit)
        consumer = Consumer(consumer_id, queue_id, pipeline, credit, size, limits, lease_s)
        if pipeline.closed or self.draining:
            consumer.ended = True
            self._leaving.add(consumer, counted=False)
            return
        self.by_id[consumer_id] = consumer
        pipeline.consumers[consumer_id] = None
        queue = self.queues.get(queue_id)
        if queue is None:
            queue = self.queues[queue_id] = ConsumedQueue(queue_id)
            self._room.watch(queue_id, self._watcher)
        queue.consumers[consumer_id] = consumer
        self.look(queue_id)

    def find(self, pipeline: Pipeline, consumer_id: int) -> Consumer | None:
        """The consumer of a connection; None when it has none with this id."""
        return self.by_id.get(consumer_id) if consumer_id in pipeline.consumers else None

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self.by_id.values())

    def get(self, consumer_id: int) -> Consumer | None:
        """A consumer of any connection; None when it is not one of this middleware."""
        return self.by_id.get(consumer_id)

    def remove(self, consumer: Consumer) -> None:
        """Removes a consumer: it gets nothing more."""
        if consumer.ended:
            return
        consumer.ended = True
        del self.by_id[consumer.consumer_id]
        consumer.pipeline.consumers.pop(consumer.consumer_id, None)
        queue = self.queues[consumer.queue_id]
        del queue.consumers[consumer.consumer_id]
        if not queue.consumers:
            del self.queues[consumer.queue_id]
            self._room.unwatch(consumer.queue_id)

    def drop(self, pipeline: Pipeline) -> None:
        """A connection was lost: its consumers leave."""
        for consumer_id in list(pipeline.consumers):
            consumer = self.by_id[consumer_id]
            self.remove(consumer)
            self._leaving.add(consumer, counted=not self.draining)

    def end(self, consumer: Consumer, failure: Failure, *, counted: bool = True) -> None:
        """Ends a consumer and tells it why. If its session has ended, its connection is closed.

        ``counted`` tells whether its messages count a failed attempt.
        """
        pipeline = consumer.pipeline
        self.remove(consumer)
        self._leaving.add(consumer, counted)
        if failure.code is ErrorCode.SESSION_FENCED:
            pipeline.send(error_frame(0, failure))
            pipeline.finish()
            return
        consumer.tell_lost(consumer.clear(), failure, ended=True)

    def end_all(self, failure: Failure) -> None:
        """Ends all consumers."""
        for consumer in list(self.by_id.values()):
            self.end(consumer, failure)

    def queue_deleted(self, queue_id: int) -> None:
        """A queue was deleted: its consumers end."""
        queue = self.queues.get(queue_id)
        if queue is not None:
            failure = failure_of(ErrorCode.QUEUE_NOT_EXISTING, f"queue {queue_id} was deleted", queue_id)
            for consumer in list(queue.consumers.values()):
                self.end(consumer, failure)

    # --- credit and answers ------------------------------------------------------------------

    def set_credit(self, consumer: Consumer, messages: int, size: int) -> None:
        """Sets how much a consumer may have at a time."""
        was_paused = consumer.paused
        consumer.set_credit(min(messages, self._max_credit), size)
        if consumer.paused != was_paused:
            self._changes.add(consumer)
        self._consider(consumer.queue_id)

    def begun(self, pipeline: Pipeline, refs: Iterable[LeaseRef], now: float, *, begun: bool) -> None:
        """An application got these messages, or did not get them after all."""
        for ref in refs:
            consumer = self.find(pipeline, ref.consumer_id)
            if consumer is None:
                continue
            if begun:
                consumer.begin(LeaseKey(ref.lease_id, ref.message_id), now)
            else:
                consumer.take_back(LeaseKey(ref.lease_id, ref.message_id))

    def begun_ids(self, pipeline: Pipeline, refs: Iterable[LeaseRef]) -> list[int] | None:
        """Returns all begun messages of the consumers of these messages.

        None when that is not known: a consumer's connection was lost after the request came, or it was
        another connection's.
        """
        found = [self.find(pipeline, consumer_id) for consumer_id in {ref.consumer_id for ref in refs}]
        if None in found:
            return None
        return [message_id for consumer in found if consumer is not None for message_id in consumer.begun_ids]

    def may_receive_again(self, consumer: Consumer) -> None:
        """A consumer that failed everything may get messages."""
        self._consider(consumer.queue_id)

    def settled(self, refs: Iterable[LeaseRef]) -> None:
        """Consumers have answered, or lost, these messages."""
        queue_ids = set()
        for ref in refs:
            consumer = self.by_id.get(ref.consumer_id)
            if consumer is not None and consumer.drop(LeaseKey(ref.lease_id, ref.message_id)):
                queue_ids.add(consumer.queue_id)
        for queue_id in queue_ids:
            queue = self.queues.get(queue_id)
            if queue is not None and queue.settling:
                queue.awake = True
            self._consider(queue_id)

    def ready(self, consumer_id: int) -> bool:
        """Partitions of a consumer have messages. Returns False if it is not one of this middleware."""
        consumer = self.by_id.get(consumer_id)
        if consumer is None:
            return False
        consumer.ready = True
        self._consider(consumer.queue_id)
        return True

    def lost(self, refs: Sequence[LeaseRef]) -> None:
        """These leases ran out, or leases before them in their partitions."""
        self._lose(refs, "the time of the lease was up")

    def waited_in_vain(self, refs: Sequence[LeaseRef]) -> None:
        """These messages were not begun and their clients were silent, so they go back."""
        for pipeline in {
            consumer.pipeline for ref in refs if (consumer := self.by_id.get(ref.consumer_id)) is not None
        }:
            pipeline.silent = True
            for consumer_id in pipeline.consumers:
                self._changes.add(self.by_id[consumer_id])
        self._lose(refs, "the client was silent for most of the lease")

    def heard(self, pipeline: Pipeline) -> None:
        """Data came from a connection that was silent."""
        pipeline.silent = False
        for consumer_id in pipeline.consumers:
            self._changes.add(self.by_id[consumer_id])
        self.writable(pipeline)

    def came_back(self, refs: Sequence[LeaseRef]) -> None:
        """Messages before these in their partitions went back, and so did these."""
        self._lose(refs, "a message before it in its partition went back")

    def _lose(self, refs: Sequence[LeaseRef], details: str) -> None:
        failure = failure_of(ErrorCode.LEASE_LOST, details)
        by_consumer: dict[Consumer, list[LeaseRef]] = {}
        for ref in refs:
            consumer = self.by_id.get(ref.consumer_id)
            if consumer is not None and consumer.has(LeaseKey(ref.lease_id, ref.message_id)):
                by_consumer.setdefault(consumer, []).append(ref)
        for consumer, lost in by_consumer.items():
            consumer.tell_lost(lost, failure)
        self.settled(refs)

    def writable(self, pipeline: Pipeline) -> None:
        """The peer of a connection reads again."""
        for consumer_id in pipeline.consumers:
            self._consider(self.by_id[consumer_id].queue_id)

    # --- claiming ----------------------------------------------------------------------------

    def look(self, queue_id: int) -> None:
        """A queue may have messages."""
        queue = self.queues.get(queue_id)
        if queue is not None:
            queue.awake = True
            self._consider(queue_id)

    def take_due(self) -> list[ConsumedQueue]:
        """Takes the queues that are due. One that others had locked is taken alone."""
        queues: list[ConsumedQueue] = []
        while self._due and not (queues and self._due[0].alone):
            queue = self._due.popleft()
            queues.append(queue)
            if queue.alone:
                break
        return queues

    def take_waiting(self, queue_ids: Iterable[int]) -> list[ConsumedQueue]:
        """Takes those of the queues that are neither due nor claimed from and have consumers with credit."""
        queues: list[ConsumedQueue] = []
        for queue_id in queue_ids:
            queue = self.queues.get(queue_id)
            if queue is None or queue.standing or queue.alone or self.draining or not queue.has_credit:
                continue
            queue.standing = True
            queues.append(queue)
        return queues

    def put_back(self, queues: Sequence[ConsumedQueue]) -> None:
        """Puts back queues that did not fit into a claim. They are the next."""
        self._due.extendleft(reversed(queues))

    def claimed(self, queue: ConsumedQueue) -> None:
        """A claim for a queue has ended: it may be due again."""
        queue.standing = False
        self._consider(queue.queue_id)

    def current(self, consumer: Consumer) -> bool:
        """Tells whether a consumer is still a member."""
        return not consumer.ended

    @property
    def due(self) -> bool:
        """Tells whether a queue is due."""
        return bool(self._due)

    def _consider(self, queue_id: int) -> None:
        """Makes a queue due if there may be messages for its consumers."""
        queue = self.queues.get(queue_id)
        if queue is None or queue.standing or self.draining or not queue.is_due:
            return
        queue.standing = True
        self._due.append(queue)
        if len(self._due) == 1:
            self.became_due.set()
