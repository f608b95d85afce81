"""A process that generates load: its clients connect, wait for the start, and work until the time is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final, cast

from telesto.benchmarks.load.pacing import Schedule, SignalTimer, Thinking, arrival_moments
from telesto.benchmarks.load.plan import ACTIVE_ROLES, Participant, Role, WorkloadPlan
from telesto.benchmarks.load.recorder import Recorder
from telesto.benchmarks.load.roles import (
    Consumer,
    Idle,
    Publisher,
    PutReader,
    Putter,
    Reader,
    Requester,
    Responder,
    Subscriber,
)
from telesto.benchmarks.load.slot import ClientType, Slot
from telesto.benchmarks.load.worker import Plan, Result, StartSignal, run_worker
from telesto.client import AsyncTelestoClient, Delivery, Message, Queue, TelestoClient


class BlockingQueue:
    """A queue of a blocking client."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def get_many(self, *, max_messages: int, timeout: float) -> list[Message]:  # noqa: ASYNC109 - the service does the waiting
        """Take messages; return none if none came in time."""
        return self._queue.get_many(max_messages, timeout=timeout)


class BlockingClient:
    """A blocking client in a process of its own: each call stops the event loop until its answer."""

    def __init__(self, url: str, *, name: str, state_dir: str | None, delivery: Delivery) -> None:
        self._client = TelestoClient(url, name=name, state_dir=state_dir, delivery=delivery)

    async def connect(self) -> None:
        """Connect as the registered client."""
        self._client.connect()

    async def put_message(
        self, queue_id: int, body: bytes, *, priority: int, receiver_id: int | None, partition_key: str | None
    ) -> int:
        """Put one message."""
        return self._client.put_message(
            queue_id, body, priority=priority, receiver_id=receiver_id, partition_key=partition_key
        )

    def queue(self, queue_id: int) -> BlockingQueue:
        """The queue as this client uses it."""
        return BlockingQueue(self._client.queue(queue_id))

    async def close(self) -> None:
        """Confirm the messages taken, and disconnect."""
        self._client.close()


CONNECTING_AT_ONCE: Final = 32
CLOSE_TIMEOUT_S: Final = 30.0

CLIENT_TYPES: Final[Mapping[Role, type[ClientType]]] = {
    "one-way": PutReader,
    "sender": Putter,
    "receiver": Reader,
    "requester": Requester,
    "responder": Responder,
    "putter": Putter,
    "put-reader": PutReader,
    "reader": Reader,
    "publisher": Publisher,
    "subscriber": Subscriber,
    "consumer": Consumer,
    "idle": Idle,
}


async def generate(raw: Plan, start: StartSignal) -> Result:
    """Carry out a `WorkloadPlan`; write the records into its file and return the rest."""
    plan = WorkloadPlan.of(raw)
    clients = await _connect(plan)
    with Recorder(Path(plan.records)) as recorder:
        begin = await start.wait()
        await Generator(plan, clients, recorder).run(begin)
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await asyncio.gather(*(client.close() for client in clients))
    return recorder.result()


async def _connect(plan: WorkloadPlan) -> list[AsyncTelestoClient]:
    """Connect all clients, some at a time, spread over the middlewares."""
    some_at_a_time = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def connect(participant: Participant) -> AsyncTelestoClient:
        url = plan.urls[participant.number % len(plan.urls)]
        # Every run has a new state, as it has new queues.
        state_dir = str(Path(plan.states) / participant.name) if plan.states is not None else None
        # The blocking client has only the methods that are called here.
        kind = (
            cast(type[AsyncTelestoClient], BlockingClient)
            if plan.settings.client == "blocking"
            else AsyncTelestoClient
        )
        client = kind(url, name=participant.name, state_dir=state_dir, delivery=plan.settings.delivery)
        async with some_at_a_time:
            await client.connect()
        return client

    return list(await asyncio.gather(*(connect(participant) for participant in plan.participants)))


class Generator:
    """The slots of one process."""

    def __init__(self, plan: WorkloadPlan, clients: Sequence[AsyncTelestoClient], recorder: Recorder) -> None:
        self._plan = plan
        self._clients = clients
        self._recorder = recorder

    async def run(self, begin: float) -> None:
        """Work from the start on, for as long as the plan says."""
        plan, end = self._plan, begin + self._plan.settings.total_s
        active, serving = self._slots(end)
        with ExitStack() as stack:
            schedule = None
            if plan.rate is not None and active:
                timer = SignalTimer()
                stack.callback(timer.close)
                moments = arrival_moments(begin, plan.rate, plan.settings.arrivals, Random(plan.seed))
                schedule = Schedule(moments, end, timer)
            async with asyncio.TaskGroup() as group:
                for slot in serving:
                    group.create_task(_serve(slot))
                for slot in active:
                    group.create_task(self._think(slot) if schedule is None else _keep_to(schedule, slot))
            if schedule is not None:
                self._recorder.late, self._recorder.unsent = schedule.late, schedule.count_unsent()

    async def _think(self, slot: Slot) -> None:
        """Work in a closed loop, with pauses to think."""
        settings, client_type = self._plan.settings, CLIENT_TYPES[slot.participant.role](slot)
        thinking = Thinking(settings.think_ms / 1000, settings.think_spread, slot.random)
        while (now := time.monotonic()) < slot.end:
            await client_type.run_once(now)
            await thinking.pause()
        await client_type.finish()

    def _slots(self, end: float) -> tuple[list[Slot], list[Slot]]:
        """Return the slots that send on their own, and those that serve."""
        in_flight = self._plan.settings.in_flight
        active: list[Slot] = []
        serving: list[Slot] = []
        for participant, client in zip(self._plan.participants, self._clients, strict=True):
            sends = participant.role in ACTIVE_ROLES
            # Pushed messages, and those of a topic, reach one slot in one order.
            slots = 1 if participant.role in ("consumer", "subscriber") else in_flight
            for index in range(slots):
                number = participant.number * in_flight + index
                slot = Slot(client, participant, number, self._plan, self._recorder, end)
                (active if sends else serving).append(slot)
        return active, serving


async def _serve(slot: Slot) -> None:
    """Work without pauses."""
    client_type = CLIENT_TYPES[slot.participant.role](slot)
    while not slot.done and (now := time.monotonic()) < slot.end:
        await client_type.run_once(now)
    await client_type.finish()


async def _keep_to(schedule: Schedule, slot: Slot) -> None:
    """Work at those times of the schedule that no other slot has taken."""
    client_type = CLIENT_TYPES[slot.participant.role](slot)
    while (intended := await schedule.take(time.monotonic())) is not None:
        await client_type.run_once(intended)
    await client_type.finish()


if __name__ == "__main__":
    run_worker(generate)
