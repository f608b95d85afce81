"""The worker that claims messages for consumers."""

from __future__ import annotations

import asyncio

from telesto.db import calls
from telesto.middleware.common.failures import LOCKED_SQLSTATE, LostError, RefusedError, UnavailableError
from telesto.middleware.common.logs import logger
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.claim_tracker import ClaimTracker
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.database.disk import Disk
from telesto.middleware.scheduling.single_request import Call

_log = logger("claims")


class ClaimLoop:
    """Takes all queues that are due, claims from them in one call, pushes the messages, and repeats.

    There is no timer: consumers get credit and queues get messages while the call runs. After a claim whose
    outcome is unknown, the database is asked for it before the next claim.
    """

    def __init__(
        self,
        consumers: ConsumerRegistry,
        claims: ClaimTracker,
        call: Call,
        disk: Disk,
        settings: ServerSettings,
    ) -> None:
        self._consumers = consumers
        self._claims = claims
        self._call = call
        self._disk = disk
        self._answer_bytes = settings.max_answer_bytes
        self._backoff_s = settings.database_backoff_s
        self._busy_s = settings.busy_backoff_max_ms / 1000
        self._closed = False

    async def run(self) -> None:
        """Works until it is closed."""
        while not self._closed:
            if not self._consumers.due:
                self._consumers.became_due.clear()
                await self._consumers.became_due.wait()
                continue
            if self._claims.doubtful and not await self._recover():
                continue
            await self._disk.pace()
            await self._claim()

    def close(self) -> None:
        """Has ``run`` return once the call under way is over."""
        self._closed = True
        self._consumers.became_due.set()

    async def _claim(self) -> None:
        claim = self._claims.begin()
        pause = 0.0
        if claim.consumers:
            try:
                rows = await self._call(*claim.statement(self._answer_bytes, waits=True))
            except LostError:
                self._claims.lost(claim)
            except (UnavailableError, RefusedError) as error:
                self._claims.failed(claim)
                # A claim that waits for a lock is for one queue, which is tried again behind the others.
                if not isinstance(error, RefusedError) or error.sqlstate != LOCKED_SQLSTATE:
                    _log.warning("claim_failed", error=str(error))
                    pause = self._backoff_s
                elif not self._consumers.due:
                    pause = self._busy_s
            else:
                pause = self._claims.settle(claim, rows)
        if pause and not self._closed:
            await asyncio.sleep(pause)
        self._claims.over(claim)

    async def _recover(self) -> bool:
        """Asks for the outcome of lost claims; returns False when that has to be tried again."""
        doubtful = list(self._claims.doubtful)
        consumers = [consumer for consumer in doubtful if not consumer.ended]
        epochs = [consumer.epoch for consumer in consumers]
        if consumers:
            try:
                rows = await self._call(
                    *calls.recover_leases(
                        queue_ids=[consumer.queue_id for consumer in consumers],
                        consumer_ids=[consumer.consumer_id for consumer in consumers],
                        epochs=epochs,
                        seen_claims=[consumer.seen_claim for consumer in consumers],
                    )
                )
            except (LostError, UnavailableError, RefusedError) as error:
                _log.warning("recovery_failed", error=str(error))
                await asyncio.sleep(self._backoff_s)
                return False
            self._claims.recovered(consumers, rows)
        for consumer in doubtful:
            del self._claims.doubtful[consumer]
        return True
