"""Tells the database which consumers have become slow, or were paused or resumed."""

from __future__ import annotations

from telesto.db import calls
from telesto.middleware.common.failures import failure_of
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.consumer import Consumer
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
        """Sends the changes. Raises what Call raises."""
        while self._changed:
            some = dict(list(self._changed.items())[:_CONSUMERS_MAX])
            for consumer in some:
                del self._changed[consumer]
            members = [consumer for consumer in some if not consumer.ended]
            if members:
                await self._tell(members, some)

    async def _tell(self, members: list[Consumer], slow: dict[Consumer, bool]) -> None:
        try:
            rows = await self._call(
                *calls.change_consumers(
                    queue_ids=[consumer.queue_id for consumer in members],
                    consumer_ids=[consumer.consumer_id for consumer in members],
                    slow=[slow[consumer] for consumer in members],
                    paused=[consumer.paused for consumer in members],
                )
            )
        except Exception:
            # It is sent again, together with a later change.
            for consumer in members:
                self._changed[consumer] = slow[consumer] or self._changed.get(consumer, False)
            raise
        for consumer in members:
            # A consumer that became slow again meanwhile waits for the next call.
            consumer.suspended = self._changed.get(consumer, False)
        self._announcer.arrived(arrivals_of(rows[0]["woken_ids"], rows[0]["receiver_ids"]))
        for consumer, moving in zip(members, rows[0]["moving"], strict=True):
            if moving and not consumer.ended:
                consumer.tell_lost([], failure_of(ErrorCode.CONSUMER_SLOW, _MOVING))
