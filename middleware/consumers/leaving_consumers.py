"""Tells the database which consumers have left or lost their connections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter

from telesto.db import calls
from telesto.middleware.common.failures import RefusedError
from telesto.middleware.common.logs import logger
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.consumer import Consumer
from telesto.middleware.consumers.queue_by_queue import queue_by_queue
from telesto.middleware.scheduling.single_request import Call, arrivals_of
from telesto.middleware.waiting.room import Announcer

#: How many consumers one call ends.
_CONSUMERS_MAX = 256

_log = logger("consumers")


class LeavingConsumers:
    """Keeps consumers that have left until the database has ended them.

    There are at most as many as consumers, because none can join while the database is not available.
    """

    def __init__(self, call: Call, announcer: Announcer, settings: ServerSettings) -> None:
        self._call = call
        self._announcer = announcer
        self._leaving: dict[Consumer, tuple[bool, list[int]]] = {}
        self.work = Periodic(
            "leaving consumers",
            self.send,
            period_s=settings.wake_sweep_s,
            spacing_s=settings.busy_backoff_ms / 1000,
        )

    def add(self, consumer: Consumer, counted: bool, *, asked: bool = False) -> None:
        """A consumer leaves. ``counted`` tells whether its begun messages count a failed attempt.

        If it has not ``asked`` to leave, it may have begun more than it has told: all that comes back is
        marked.
        """
        self._leaving[consumer] = counted, consumer.begun_ids if counted or asked else consumer.held_ids
        self.work.poke()

    async def send(self) -> None:
        """Ends the consumers in the database. Raises what Call raises.

        Those of queues that are locked are left for the next time.
        """
        leaving = list(self._leaving)
        for start in range(0, len(leaving), _CONSUMERS_MAX):
            some = leaving[start : start + _CONSUMERS_MAX]
            try:
                await queue_by_queue(some, attrgetter("queue_id"), partial(self._end, self._call))
            except RefusedError as error:
                # The sweep ends them when their leases run out.
                _log.warning("leaving_failed", error=str(error), consumers=len(some))
                raise

    async def send_for(self, queue_id: int, call: Call) -> None:
        """Ends those of one queue now, by a call of somebody else's. Raises what it raises."""
        leaving = [consumer for consumer in self._leaving if consumer.queue_id == queue_id]
        for start in range(0, len(leaving), _CONSUMERS_MAX):
            await self._end(call, leaving[start : start + _CONSUMERS_MAX])

    async def _end(self, call: Call, some: Sequence[Consumer]) -> None:
        some = [consumer for consumer in some if consumer in self._leaving]
        left = [self._leaving[consumer] for consumer in some]
        rows = await call(
            *calls.leave_queues(
                queue_ids=[consumer.queue_id for consumer in some],
                consumer_ids=[consumer.consumer_id for consumer in some],
                counted=[counted for counted, _ in left],
                begun_ids=[message_id for _, begun_ids in left for message_id in begun_ids],
            )
        )
        for consumer in some:
            self._leaving.pop(consumer, None)
        arrivals = arrivals_of(rows[0]["queue_ids_back"], rows[0]["receiver_ids_back"])
        if arrivals:
            self._announcer.arrived(arrivals)
