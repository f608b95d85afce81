"""Extends the leases of messages that wait at consumers, and notes in the database which were begun."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import attrgetter

from telesto.db import calls
from telesto.middleware.common.failures import BUSY
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.consumer import Consumer, LeaseKey
from telesto.middleware.consumers.queue_by_queue import queue_by_queue
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.scheduling.single_request import Call, arrivals_of
from telesto.middleware.waiting.room import Announcer
from telesto.protocol.packets import LeaseRef

#: It checks this often in the time of the shortest lease, within these limits in seconds.
_LOOKS = 20
_PERIOD_MIN_S = 0.02
_PERIOD_MAX_S = 0.5


class LeaseRenewal:
    """Checks the messages of consumers periodically.

    The lease of a message that waits at a consumer is extended while data comes from its client. Otherwise
    the message goes back, which counts no attempt. Leases that ran out are left to the sweep. It counts an
    attempt of messages that the database knows to be begun, so begins are noted before. Messages that are
    answered earlier cost nothing.
    """

    def __init__(
        self,
        call: Call,
        consumers: ConsumerRegistry,
        announcer: Announcer,
        settings: ServerSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._call = call
        self._consumers = consumers
        self._announcer = announcer
        self._rows_max = settings.sweep_rows
        self._clock = clock
        self._returning: list[LeaseRef] = []
        self.work = Periodic("leases", self.look, period_s=_PERIOD_MAX_S)

    async def look(self) -> None:
        """Handles all that is due. Raises what Call raises, and repeats it next time."""
        now = self._clock()
        shortest = min((consumer.lease_s for consumer in self._consumers), default=0.0)
        self.work.period_s = min(_PERIOD_MAX_S, max(_PERIOD_MIN_S, shortest / _LOOKS)) if shortest else None
        returning: list[LeaseRef] = []
        keeping: list[tuple[Consumer, LeaseKey, float | None]] = []
        for consumer in self._consumers:
            if not consumer.held:
                continue
            returning += consumer.refs(consumer.to_return(now))
            keeping += [(consumer, key, None) for key in consumer.to_keep(now)]
            keeping += [(consumer, key, begun_s) for key, begun_s in consumer.to_note(now)]
        # From here on no consumer has them: a begin now would be too late.
        self._consumers.waited_in_vain(returning)
        self._returning += returning
        for start in range(0, len(keeping), self._rows_max):
            await self._keep(keeping[start : start + self._rows_max])
        returning = self._returning
        locked: list[LeaseRef] = []
        try:
            while returning:
                some = returning[: self._rows_max]
                locked += await queue_by_queue(some, attrgetter("consumer_id"), self._return)
                del returning[: self._rows_max]
        finally:
            self._returning = returning + locked

    async def _keep(self, keeping: list[tuple[Consumer, LeaseKey, float | None]]) -> None:
        now = self._clock()
        rows = await self._call(
            *calls.keep_leases(
                consumer_ids=[consumer.consumer_id for consumer, _, _ in keeping],
                lease_ids=[key.lease_id for _, key, _ in keeping],
                message_ids=[key.message_id for _, key, _ in keeping],
                begun_ms=[None if begun_s is None else round(begun_s * 1000) for _, _, begun_s in keeping],
            )
        )
        for (consumer, key, begun_s), error in zip(keeping, rows[0]["keep_leases"], strict=True):
            if error == BUSY:
                continue
            # A lease that is gone was acknowledged, or the sweep has it and will tell.
            consumer.kept(key, now)
            if begun_s is not None:
                consumer.noted(key)

    async def _return(self, refs: Sequence[LeaseRef]) -> None:
        rows = await self._call(
            *calls.return_waiting(
                consumer_ids=[ref.consumer_id for ref in refs],
                lease_ids=[ref.lease_id for ref in refs],
                message_ids=[ref.message_id for ref in refs],
            )
        )
        row = rows[0]
        self._announcer.arrived(arrivals_of(row["queue_ids"], row["receiver_ids"]))
        followers = (row["follower_consumers"], row["follower_leases"], row["follower_ids"])
        self._consumers.came_back(
            [LeaseRef(*ref) for ref in zip(*(column or () for column in followers), strict=True)]
        )
