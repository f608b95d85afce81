"""A process that generates load: its clients connect, wait for the moment, work until the time is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final, cast

from telesto.benchmarks.worker import Gate, Plan, Result, run_worker
from telesto.benchmarks.workloads.blocking import BlockingClient
from telesto.benchmarks.workloads.consumer_roles import Consumer
from telesto.benchmarks.workloads.lane import ClientType, Lane
from telesto.benchmarks.workloads.pacing import Schedule, SignalAlarm, Thinking, arrival_moments
from telesto.benchmarks.workloads.plan import ACTIVE_ROLES, Role, Seat, WorkloadPlan
from telesto.benchmarks.workloads.queue_roles import Idle, PutReader, Putter, Reader
from telesto.benchmarks.workloads.recorder import Recorder
from telesto.benchmarks.workloads.request_roles import Answerer, Asker
from telesto.benchmarks.workloads.topic_roles import Publisher, Subscriber
from telesto.client import AsyncTelestoClient

CONNECTING_AT_ONCE: Final = 32
CLOSE_TIMEOUT_S: Final = 30.0

CLIENT_TYPES: Final[Mapping[Role, Callable[[Lane], ClientType]]] = {
    "one-way": PutReader,
    "sender": Putter,
    "receiver": Reader,
    "asker": Asker,
    "answerer": Answerer,
    "putter": Putter,
    "put-reader": PutReader,
    "reader": Reader,
    "publisher": Publisher,
    "subscriber": Subscriber,
    "consumer": Consumer,
    "idle": Idle,
}


async def generate(raw: Plan, gate: Gate) -> Result:
    """Carry out a `WorkloadPlan`; leave the records in its file and return the rest."""
    plan = WorkloadPlan.of(raw)
    clients = await _connect(plan)
    with Recorder(Path(plan.records)) as recorder:
        begin = await gate.wait()
        await Generator(plan, clients, recorder).run(begin)
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await asyncio.gather(*(client.close() for client in clients))
    return recorder.result()


async def _connect(plan: WorkloadPlan) -> list[AsyncTelestoClient]:
    """Connect all clients, some at a time; they are spread over the middlewares."""
    some_at_a_time = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def connect(seat: Seat) -> AsyncTelestoClient:
        url = plan.urls[seat.number % len(plan.urls)]
        # Begun anew by every run, like the queue.
        state_dir = str(Path(plan.states) / seat.name) if plan.states is not None else None
        # The blocking client has the methods that are called of it, and no others.
        kind = cast(type[AsyncTelestoClient], BlockingClient) if plan.blocking else AsyncTelestoClient
        client = kind(url, state_dir=state_dir, delivery=plan.delivery)
        async with some_at_a_time:
            await client.connect(name=seat.name, existing="use")
        return client

    return list(await asyncio.gather(*(connect(seat) for seat in plan.seats)))


class Generator:
    """The lanes of one process."""

    def __init__(self, plan: WorkloadPlan, clients: Sequence[AsyncTelestoClient], recorder: Recorder) -> None:
        self._plan = plan
        self._clients = clients
        self._recorder = recorder

    async def run(self, begin: float) -> None:
        """Work from a moment on, for as long as the plan says."""
        plan, end = self._plan, begin + self._plan.seconds
        active, serving = self._lanes(end)
        with ExitStack() as stack:
            schedule = None
            if plan.rate is not None and active:
                alarm = SignalAlarm()
                stack.callback(alarm.close)
                moments = arrival_moments(begin, plan.rate, plan.arrivals, Random(plan.seed))
                schedule = Schedule(moments, end, alarm)
            async with asyncio.TaskGroup() as group:
                for lane in serving:
                    group.create_task(_serve(lane))
                for lane in active:
                    group.create_task(self._think(lane) if schedule is None else _keep_to(schedule, lane))
            if schedule is not None:
                self._recorder.late, self._recorder.unsent = schedule.late, schedule.count_unsent()

    async def _think(self, lane: Lane) -> None:
        """Take turns with pauses for thinking between them."""
        plan, client_type = self._plan, CLIENT_TYPES[lane.seat.role](lane)
        thinking = Thinking(plan.think_s, plan.think_spread, lane.random)
        while (now := time.monotonic()) < lane.end:
            await client_type.turn(now)
            await thinking.pause()
        await client_type.finish()

    def _lanes(self, end: float) -> tuple[list[Lane], list[Lane]]:
        """Return the lanes that send by themselves and those that serve."""
        active: list[Lane] = []
        serving: list[Lane] = []
        for seat, client in zip(self._plan.seats, self._clients, strict=True):
            sends = seat.role in ACTIVE_ROLES
            # What is pushed, and a topic, come in one order to one lane.
            lanes = 1 if seat.role in ("consumer", "subscriber") else self._plan.lanes
            for index in range(lanes):
                number = seat.number * self._plan.lanes + index
                lane = Lane(client, seat, number, self._plan, self._recorder, end)
                (active if sends else serving).append(lane)
        return active, serving


async def _serve(lane: Lane) -> None:
    """Take turns without a pause."""
    client_type = CLIENT_TYPES[lane.seat.role](lane)
    while not lane.done and (now := time.monotonic()) < lane.end:
        await client_type.turn(now)
    await client_type.finish()


async def _keep_to(schedule: Schedule, lane: Lane) -> None:
    """Take turns at the moments of the schedule, whichever are free."""
    client_type = CLIENT_TYPES[lane.seat.role](lane)
    while (intended := await schedule.take(time.monotonic())) is not None:
        await client_type.turn(intended)
    await client_type.finish()


if __name__ == "__main__":
    run_worker(generate)
