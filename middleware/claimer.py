"""The worker that claims messages for consumers and pushes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from telesto.middleware.consumed_queue import ConsumedQueue
from telesto.middleware.consumer import Consumer, LeaseKey
from telesto.middleware.consumers import Consumers
from telesto.middleware.failures import BUSY, LostError, RefusedError, UnavailableError, failure_of
from telesto.middleware.figures import Figures
from telesto.middleware.handlers.rows import ANSWER_OVERHEAD_BYTES, MESSAGE_OVERHEAD_BYTES, message_of
from telesto.middleware.logs import logger
from telesto.middleware.settings import ServerSettings
from telesto.middleware.single import Call, Row
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import Deliver, Delivery

CLAIM = "SELECT * FROM telesto.claim_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
RECOVER = "SELECT * FROM telesto.recover_leases($1, $2, $3, $4)"

_DETAILS = {
    ErrorCode.CLIENT_NOT_EXISTING: "the client was deleted",
    ErrorCode.SESSION_FENCED: "the client has opened another session",
    ErrorCode.QUEUE_NOT_EXISTING: "the queue was deleted",
    ErrorCode.CONSUMER_NOT_EXISTING: "the service took the consumer for gone; it may join again",
}
#: Notes in the place of an error. For a queue: it holds more, which was too large for now.
_MORE = -2
#: For a consumer: its partitions hold more.
_READY = -3
#: For a queue: partitions wait until what is leased of them is answered.
_WAITING = -4
#: For a queue: puts have reached more partitions.
_REACHED = -5
#: Bytes of a delivery on the wire beside its message's body, at most.
_DELIVERY_BYTES = 8 + MESSAGE_OVERHEAD_BYTES
#: Bytes of a partition key on the wire, at most.
_KEY_BYTES = 8 + 4 * 255

_log = logger("claimer")


class Claimer:
    """Takes the queues that it is time to claim from, calls once for all of them, pushes what came, again.

    There is no timer: consumers get room and queues get messages while the call runs. A claim of which nobody
    knows what became is looked for before the next one, in the database that has it or has it not.

    Attributes:
        on_ready_elsewhere: takes a queue in which a consumer of another middleware was given a partition.
    """

    def __init__(
        self,
        consumers: Consumers,
        call: Call,
        figures: Figures,
        settings: ServerSettings,
    ) -> None:
        self._consumers = consumers
        self._call = call
        self._figures = figures
        self._max_messages = settings.max_batch
        self._answer_bytes = settings.max_answer_bytes
        self._busy_s = settings.busy_backoff_max_ms / 1000
        self._backoff_s = settings.database_backoff_s
        self._due = asyncio.Event()
        self._closed = False
        self._doubtful: dict[Consumer, None] = {}
        self.on_ready_elsewhere: Callable[[int], None] = lambda queue_id: None
        consumers.on_due = self._due.set

    async def run(self) -> None:
        """Works until it is closed."""
        while not self._closed:
            if not self._consumers.due:
                self._due.clear()
                await self._due.wait()
                continue
            if self._doubtful and not await self._recover():
                continue
            await self._claim()

    def close(self) -> None:
        """Has it go home once the call under way is over."""
        self._closed = True
        self._due.set()

    # --- claiming ----------------------------------------------------------------------------

    async def _claim(self) -> None:
        queues = self._consumers.take_due()
        batch = _Batch(queues, self._max_messages)
        self._consumers.put_back(batch.left)
        pause = 0.0
        if batch.consumers:
            try:
                rows = await self._call(CLAIM, *batch.arguments(), self._answer_bytes)
            except LostError:
                self._doubt(batch)
            except (UnavailableError, RefusedError) as error:
                _log.warning("claim_failed", error=str(error))
                for queue in batch.queues:
                    queue.awake = True
                pause = self._backoff_s
            else:
                self._figures.claims_total += 1
                pause = self._settle(batch, rows)
        if pause and not self._closed:
            await asyncio.sleep(pause)
        for queue in batch.queues:
            self._consumers.claimed(queue)

    def _settle(self, batch: _Batch, rows: Sequence[Row]) -> float:
        """Pushes what came; returns how long to pause because all queues are busy."""
        counts = self._deliver(batch.consumers, [row for row in rows if row["error"] is None])
        busy = False
        for row in rows:
            error = row["error"]
            if error is None:
                continue
            if error < BUSY:
                self._note(batch, row, counts)
                continue
            consumer = batch.consumers[row["request"] - 1]
            queue = batch.queue_of[consumer]
            if error == BUSY:
                queue.awake = queue.alone = busy = True
            elif not consumer.ended:
                code = ErrorCode(error)
                self._consumers.end(consumer, failure_of(code, _DETAILS.get(code, "the claim was refused")))
        for queue in batch.queues:
            count = counts.get(queue.queue_id, 0)
            if count:
                queue.alone = False
            if count >= batch.asked[queue.queue_id]:
                queue.awake = True
        return self._busy_s if busy and not counts else 0.0

    def _note(self, batch: _Batch, row: Row, counts: dict[int, int]) -> None:
        """Sees to what a claim has told beside messages.

        What is left for consumers that have room is claimed at once only if this claim has brought something:
        otherwise it did not fit, and an answer has to make room first.
        """
        queue = batch.by_id[row["queue_id"]]
        if not queue.keyed and row["error"] != _MORE:
            # From now on claims ask for all consumers; this one did not.
            queue.keyed = queue.awake = True
        if row["error"] == _WAITING:
            queue.settling = True
        elif row["error"] == _REACHED:
            queue.awake = True
        elif row["error"] == _READY and row["request"] == 0:
            if not self._consumers.ready(row["message_id"]):
                self.on_ready_elsewhere(queue.queue_id)
        elif not counts.get(queue.queue_id):
            queue.settling = True
        elif row["error"] == _READY:
            batch.consumers[row["request"] - 1].ready = True
        else:
            queue.awake = True

    def _deliver(self, consumers: Sequence[Consumer], rows: Sequence[Row]) -> dict[int, int]:
        """Pushes messages to their consumers; returns how many came from each queue."""
        by_consumer: dict[int, list[Row]] = {}
        counts: dict[int, int] = {}
        for row in rows:
            by_consumer.setdefault(row["request"], []).append(row)
            counts[row["queue_id"]] = counts.get(row["queue_id"], 0) + 1
        for request, of_consumer in by_consumer.items():
            consumer = consumers[request - 1]
            # One that has ended has left or will leave, and gives them back then.
            if not consumer.ended:
                _push(consumer, of_consumer)
        self._figures.delivered_total += len(rows)
        return counts

    # --- doubt -------------------------------------------------------------------------------

    def _doubt(self, batch: _Batch) -> None:
        """Nobody knows what became of a claim."""
        for queue in batch.queues:
            queue.awake = True
        for consumer in batch.consumers:
            consumer.epoch += 1
            self._doubtful[consumer] = None

    async def _recover(self) -> bool:
        """Finds out what became of lost claims; returns False when that has to be tried again."""
        consumers = [consumer for consumer in self._doubtful if not consumer.ended]
        if consumers:
            try:
                rows = await self._call(
                    RECOVER,
                    [consumer.queue_id for consumer in consumers],
                    [consumer.consumer_id for consumer in consumers],
                    [consumer.epoch for consumer in consumers],
                    [consumer.seen_claim for consumer in consumers],
                )
            except (LostError, UnavailableError, RefusedError) as error:
                _log.warning("recovery_failed", error=str(error))
                await asyncio.sleep(self._backoff_s)
                return False
            self._deliver(consumers, rows)
            self._figures.recovered_total += len(rows)
        self._doubtful.clear()
        return True


class _Batch:
    """The queues and consumers of one claim.

    Attributes:
        queues: those that are claimed from.
        left: those that there was no place for.
        consumers: those that may be given something, in the order of the arrays.
        queue_of: the queue of each.
        by_id: the queues by their ids.
        asked: by queue, how many messages are asked for at most.
    """

    def __init__(self, queues: Sequence[ConsumedQueue], max_messages: int) -> None:
        self.queues: list[ConsumedQueue] = []
        self.left: list[ConsumedQueue] = []
        self.consumers: list[Consumer] = []
        self.queue_of: dict[Consumer, ConsumedQueue] = {}
        self.by_id: dict[int, ConsumedQueue] = {}
        self.asked: dict[int, int] = {}
        self._slots: list[int] = []
        for at, queue in enumerate(queues):
            room = max_messages - len(self._slots)
            if room <= 0:
                self.left = list(queues[at:])
                break
            self.queues.append(queue)
            slots = queue.deal(room)
            if slots:
                # Whatever comes from now on wakes it again; what this claim leaves, the claim itself tells.
                queue.awake = queue.settling = False
            self.by_id[queue.queue_id] = queue
            self.asked[queue.queue_id] = len(slots)
            self._add(queue, slots)

    def _add(self, queue: ConsumedQueue, slots: list[Consumer]) -> None:
        places: dict[Consumer, int] = {}
        for consumer in slots:
            if consumer not in places:
                self.consumers.append(consumer)
                self.queue_of[consumer] = queue
                places[consumer] = len(self.consumers)
        if queue.keyed:
            for consumer in queue.consumers.values():
                if consumer not in places and not consumer.ended:
                    self.consumers.append(consumer)
                    self.queue_of[consumer] = queue
        for consumer in queue.consumers.values():
            consumer.ready = False
        self._slots += [places[consumer] for consumer in slots]

    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the procedure but for the last one."""
        consumers = self.consumers
        return (
            [consumer.queue_id for consumer in consumers],
            [consumer.consumer_id for consumer in consumers],
            [consumer.client.client_id for consumer in consumers],
            [consumer.client.session for consumer in consumers],
            [consumer.epoch for consumer in consumers],
            [consumer.room_bytes for consumer in consumers],
            [_largest(consumer) for consumer in consumers],
            [consumer.held == 0 for consumer in consumers],
            self._slots,
        )


def _largest(consumer: Consumer) -> int:
    """The length of the longest body that a consumer's connection can carry."""
    return max(0, consumer.line.frame_bytes - ANSWER_OVERHEAD_BYTES - _DELIVERY_BYTES - _KEY_BYTES)


def _push(consumer: Consumer, rows: Sequence[Row]) -> None:
    """Sends messages to a consumer, in as few frames as they fit."""
    room = consumer.line.frame_bytes - ANSWER_OVERHEAD_BYTES
    deliveries: list[Delivery] = []
    left = room
    for row in rows:
        size = len(row["body"])
        consumer.add(LeaseKey(row["lease_id"], row["message_id"]), size, row["claim_id"])
        message = message_of(row)
        wire_bytes = size + _DELIVERY_BYTES
        if row["partition_key"] is not None:
            message.partition_key = row["partition_key"]
            wire_bytes += _KEY_BYTES
        if deliveries and wire_bytes > left:
            consumer.line.send(Deliver(consumer.consumer_id, deliveries).encode(0))
            deliveries, left = [], room
        deliveries.append(Delivery(row["lease_id"], message))
        left -= wire_bytes
    consumer.line.send(Deliver(consumer.consumer_id, deliveries).encode(0))
