"""Tests of how often the maintenance jobs run."""

import asyncio
from collections import Counter
from typing import Any

from telesto.middleware.cluster.maintenance import MaintenanceJobs
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.clock import DatabaseClock
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.waiting.room import Announcer
from workbench import empty_room


class Sweeps:
    """In the place of the database: counts the turns of each job, which never find anything."""

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def call(self, sql: str, *arguments: Any) -> list[Any]:
        if "telesto.sweep(" not in sql:
            return [{"queue_ids": (), "topic_ids": (), "receiver_ids": (), "counts": ()}]
        async with self._changed:
            self.turns[arguments[1]] += 1
            self._changed.notify_all()
        return [{"elected": True, "done": 0, "more": False, "queue_ids": (), "receiver_ids": ()}]

    async def reach(self, job: str, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.turns[job] >= count)


async def sweep_until(job: str, count: int, **settings: float) -> Counter[str]:
    """Runs all jobs until one has had so many turns; returns the turns of each."""
    sweeps = Sweeps()
    loaded = ServerSettings.load(database_url="postgresql://nowhere/nothing", **settings)
    announcer = Announcer(empty_room(), lambda arrivals: None)
    jobs = MaintenanceJobs(
        sweeps.call, sweeps.call, Peers("0"), DatabaseClock(sweeps.call, Counters()), announcer, loaded
    )
    tasks = [asyncio.create_task(work.run()) for work in jobs.work]
    async with asyncio.timeout(30):
        await sweeps.reach(job, count)
    turns = sweeps.turns.copy()
    for work in jobs.work:
        work.stop()
    await asyncio.gather(*tasks)
    return turns


def test_the_walk_over_all_hand_overs_is_done_at_the_start_and_then_rarely() -> None:
    turns = asyncio.run(sweep_until("topics", 5, sweep_interval_s=0.01))
    assert turns["unconfirmed"] == 1


def test_the_walk_is_done_as_often_as_a_short_retention_asks_for() -> None:
    turns = asyncio.run(sweep_until("unconfirmed", 4, sweep_interval_s=0.01, retention_s=1.0))
    assert turns["topics"] >= 1
