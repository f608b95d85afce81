"""Tells the database which consumers have become slow, or were paused or resumed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter

from telesto.db import calls
from telesto.middleware.common.failures import failure_of
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.consumer import Consumer
from telesto.middleware.consumers.queue_by_queue import queue_by_queue
from telesto.middleware.scheduling.single_request import Call, arrivals_of
from telesto.middleware.waiting.room import Announcer
from telesto.protocol.errors import ErrorCode

#: How many consumers one call changes.
_CONSUMERS_MAX = 256
#: The details for a consumer that should give back what it has not begun.
_MOVING = "it answers late, or fails everything: others get its partitions"


class ConsumerChanges:
    """Keeps the changes until the database has them. There are at most as many as consumers."""

    def __init__(self, call: Call, announcer: Announcer, settings: ServerSettings) -> None:
        self._call = call
        self._announcer = announcer
        self._changed: dict[Consumer, bool] = {}
        self.work = Periodic(
            "consumer changes",
            self.send,
            period_s=settings.wake_sweep_s,
            spacing_s=settings.busy_backoff_ms / 1000,
        )

    def add(self, consumer: Consumer, *, slow: bool = False) -> None:
        """A consumer has become slow, or was paused or resumed."""
        self._changed[consumer] = slow or self._changed.get(consumer, False)
        self.work.poke()

    async def send(self) -> None:
        """Sends the changes. Raises what Call raises.

        Those of queues that are locked are left for the next time.
        """
        slow, self._changed = self._changed, {}
        unsent = [consumer for consumer in slow if not consumer.ended]
        locked: list[Consumer] = []
        try:
            while unsent:
                some = unsent[:_CONSUMERS_MAX]
                locked += await queue_by_queue(some, attrgetter("queue_id"), partial(self._tell, slow))
                del unsent[:_CONSUMERS_MAX]
        finally:
            # They are sent again, together with later changes.
            for consumer in (*unsent, *locked):
                self._changed[consumer] = slow[consumer] or self._changed.get(consumer, False)

    async def _tell(self, slow: dict[Consumer, bool], members: Sequence[Consumer]) -> None:
        rows = await self._call(
            *calls.change_consumers(
                queue_ids=[consumer.queue_id for consumer in members],
                consumer_ids=[consumer.consumer_id for consumer in members],
                slow=[slow[consumer] for consumer in members],
                paused=[consumer.paused for consumer in members],
            )
        )
        for consumer in members:
            # A consumer that became slow again meanwhile waits for the next call.
            consumer.suspended = self._changed.get(consumer, False)
        self._announcer.arrived(arrivals_of(rows[0]["woken_ids"], rows[0]["receiver_ids"]))
        for consumer, moving in zip(members, rows[0]["moving"], strict=True):
            if moving and not consumer.ended:
                consumer.tell_lost([], failure_of(ErrorCode.CONSUMER_SLOW, _MOVING))
