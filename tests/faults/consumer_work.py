"""Consumers at work: producers of one queue, and consumers who answer, give back, come late or die."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from telesto.client import AsyncTelestoClient, ClientOptions

from .calls import Bounds
from .checker import Verdict
from .consumer import Settle, Take
from .consumer_checker import check_consumers
from .history import Began, Ended, Event, Recorder
from .processes import PATIENCE_S, Database
from .workload import CLIENT_OPTIONS, Part, Size, Workload, register, rows_left

_CONSUMERS = ("blocking", "asyncio", "slow", "untold")
#: Short, so that leases run out in a run; no message dies of it.
_LEASE_MS = 2_000
_ATTEMPTS = 1_000_000
_BACKOFF_MS = (100, 1_000)
_DRAINER = "drainer"
#: What a killed consumer had comes back within so long, in seconds.
_BACK_S = 10.0
#: Not lost_leases: a middleware asks for them once its consumers have messages again.
_TABLES = ("messages", "delayed_messages", "leases", "consumers", "dead_letters")


class ConsumerWork(Workload):
    """Puts, and messages pushed under leases."""

    sizes: ClassVar[Mapping[str, Size]] = {
        "small": Size(2, {"producer": ("blocking", "asyncio"), "consumer": _CONSUMERS}, rounds=1, at_once=2),
        "medium": Size(
            3, {"producer": ("blocking", "asyncio"), "consumer": _CONSUMERS * 2}, rounds=3, at_once=2
        ),
        "large": Size(
            3,
            {"producer": ("blocking", "threads", "asyncio", "asyncio"), "consumer": _CONSUMERS * 3},
            rounds=12,
            at_once=3,
        ),
    }

    def __init__(self, size: Size, histories: Path) -> None:
        super().__init__(size, histories)
        self._queue_id = 0

    async def prepare(self, url: str) -> list[Part]:
        """Registers the clients and creates the queue."""
        producers, consumers = self.names("producer"), self.names("consumer")
        for name in (*producers, *consumers):
            await register(url, name)
        async with AsyncTelestoClient(url) as client:
            await client.connect("preparer")
            first, most = _BACKOFF_MS
            queue = await client.create_queue(
                "work", lease_ms=_LEASE_MS, max_attempts=_ATTEMPTS, backoff_ms=first, backoff_max_ms=most
            )
        self._queue_id = queue.queue_id
        return [
            Part(role, name, style, {"queue_ids": [self._queue_id]})
            for role, names in (("producer", producers), ("consumer", consumers))
            for name, style in names.items()
        ]

    def may_be_killed(self, part: Part) -> bool:
        """All: what a consumer has not acknowledged comes again."""
        return True

    async def drain(self, url: str) -> None:
        """Acknowledges what is left, until nothing has come for as long as a lease may last."""
        recorder = Recorder(self._histories, _DRAINER, 1)
        async with AsyncTelestoClient(url, options=ClientOptions(**CLIENT_OPTIONS)) as client:
            await client.connect(_DRAINER)
            recorder.write(Began, client_id=client.client_id)
            await self._acknowledge_all(client, recorder)
        recorder.write(Ended)
        recorder.close()

    async def _acknowledge_all(self, client: AsyncTelestoClient, recorder: Recorder) -> None:
        number = 0
        async with client.consume(self._queue_id) as consumer:
            while True:
                number += 1
                take = Take(recorder, number, _BACK_S)
                take.began(client)
                leased = await consumer.get(_BACK_S)
                take.returned(client, leased)
                if leased is None:
                    return
                settle = Settle(recorder, number, leased.message, "ack")
                settle.began(client)
                await leased.ack()
                settle.done(client)

    async def leftovers(self, database: Database) -> list[str]:
        """No message, lease or consumer is left."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while left := await rows_left(database, _TABLES):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)  # a middleware clears up now and then
        except TimeoutError:
            return left
        return []

    def check(self, events: Iterable[Event], bounds: Bounds) -> Verdict:
        """Each message was acknowledged once."""
        return check_consumers(events, bounds)
