"""A generator: one process with some connections, each with some requests in flight.

Closed loop: a lane sends its next request when the last one was answered. With the workload `put`
a lane only puts; with `put-read` it puts one message and takes one, so that a queue always holds a
message for whoever takes, and is empty at the end.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from telesto.benchmarks.bodies import BodyMaker, identity_of
from telesto.benchmarks.sessions import BlockingSession, Session, TelestoSession
from telesto.benchmarks.tally import Tally, Workload, save_tally
from telesto.benchmarks.worker import Gate, Plan, Result, run_worker
from telesto.client import Delivery
from telesto.protocol.errors import TelestoError

CONNECTING_AT_ONCE: Final = 32
ERRORS_PER_LANE_MAX: Final = 20
PAUSE_AFTER_ERROR_S: Final = 0.02
CLOSE_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What one generator does."""

    urls: list[str]
    queue_ids: list[int]
    workload: Workload
    connections: int
    in_flight: int
    seconds: float
    directory: str
    first_stream: int = 0
    names: str = "bench"
    body_bytes: int = 200
    priority: int = 5
    take_timeout_s: float = 10.0
    delivery: Delivery = "once"
    blocking: bool = False
    state: bool = False

    def as_plan(self) -> Plan:
        """Return the plan as a worker receives it."""
        return asdict(self)


class Lane:
    """One request in flight after the other, until the end of the run."""

    def __init__(self, session: Session, bodies: BodyMaker, tally: Tally) -> None:
        self._session = session
        self._bodies = bodies
        self._tally = tally
        self._errors_left = ERRORS_PER_LANE_MAX

    async def put_until(self, end: float) -> None:
        """Put, one message after the other."""
        while time.monotonic() < end and self._errors_left:
            await self._put()

    async def put_and_read_until(self, end: float) -> None:
        """Put one message, take one, and so on."""
        while time.monotonic() < end and self._errors_left:
            if await self._put():
                await self._take()

    async def _put(self) -> bool:
        identity, body = self._bodies.next()
        began = time.monotonic()
        try:
            await self._session.put(body)
        except TelestoError as error:
            self._tally.doubtful.append(identity)
            await self._note(type(error).__name__)
            return False
        self._tally.puts.add(identity, began, time.monotonic())
        return True

    async def _take(self) -> None:
        began = time.monotonic()
        try:
            body = await self._session.take()
        except TelestoError as error:
            await self._note(type(error).__name__)
            return
        if body is None:
            await self._note("nothing to take")
        else:
            self._tally.takes.add(identity_of(body), began, time.monotonic())

    async def _note(self, error: str) -> None:
        """Count an error; a lane with too many gives up, and the run's report says so."""
        self._tally.errors[error] += 1
        self._errors_left -= 1
        await asyncio.sleep(PAUSE_AFTER_ERROR_S)


async def generate(raw: Plan, gate: Gate) -> Result:
    """Carry out a `LoadPlan`; leave the records in its directory and return the errors by name."""
    plan = LoadPlan(**raw)
    sessions = await _open_sessions(plan)
    tally = Tally()
    begin = await gate.wait()
    async with asyncio.TaskGroup() as group:
        for lane in _lanes(plan, sessions, tally):
            run = lane.put_until if plan.workload == "put" else lane.put_and_read_until
            group.create_task(run(begin + plan.seconds))
    async with asyncio.timeout(CLOSE_TIMEOUT_S):
        await asyncio.gather(*(session.close() for session in sessions))
    return save_tally(tally, Path(plan.directory), str(plan.first_stream))


async def _open_sessions(plan: LoadPlan) -> list[Session]:
    """Connect all clients, some at a time; they are spread over the middlewares and queues."""
    some_at_a_time = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def open_one(index: int) -> Session:
        url = plan.urls[index % len(plan.urls)]
        queue_id = plan.queue_ids[index % len(plan.queue_ids)]
        name = f"{plan.names}-{plan.first_stream}-{index}"
        # Begun anew by every run, like the queue.
        state_dir = tempfile.mkdtemp(prefix="state-", dir=plan.directory) if plan.state else None
        async with some_at_a_time:
            if plan.blocking:
                return BlockingSession.open(
                    url, name, queue_id, plan.priority, plan.take_timeout_s, state_dir
                )
            return await TelestoSession.open(
                url, name, queue_id, plan.priority, plan.take_timeout_s, plan.delivery, state_dir
            )

    return list(await asyncio.gather(*(open_one(index) for index in range(plan.connections))))


def _lanes(plan: LoadPlan, sessions: Sequence[Session], tally: Tally) -> list[Lane]:
    lanes: list[Lane] = []
    for session in sessions:
        for _ in range(plan.in_flight):
            stream = plan.first_stream + len(lanes)
            lanes.append(Lane(session, BodyMaker(stream, plan.body_bytes), tally))
    return lanes


if __name__ == "__main__":
    run_worker(generate)
