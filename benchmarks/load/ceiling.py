"""The ceiling: one process calls the array procedures by asyncpg, without the service or the client library.

The calls do everything that a middleware's calls do: numbered requests of several clients, and each call
confirms the requests of the previous one. If messages are read too, one connection puts while another takes.
With a batch of one both alternate on one connection, which gives the latency of a single call.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncpg

from telesto.benchmarks.load.bodies import BodyMaker, open_envelopes
from telesto.benchmarks.load.recorder import Operation, Recorder
from telesto.benchmarks.load.slot import PRIORITY_ALONE
from telesto.benchmarks.load.worker import Plan, Result, StartSignal, run_worker
from telesto.db import calls

PUT_METHOD: Final = 0x31
FULL_MODE: Final = 1
BYTES_MAX: Final = 1 << 20
BATCHES_AHEAD_MAX: Final = 8
"""The number of batches by which the putting connection may be ahead of the taking one."""
PUT_SLOT: Final = 0
TAKE_SLOT: Final = 1


@dataclass(frozen=True, slots=True)
class CeilingPlan:
    """The plan of the process.

    Attributes:
        with_takes: it takes the messages that it put.
        clients: registered for each kind of call; they share the requests of a batch.
        batch: requests of one call.
        records: the file for the records.
    """

    database_url: str
    queue_ids: list[int]
    with_takes: bool
    clients: int
    batch: int
    seconds: float
    records: str
    body_bytes: int = 200


class CallFailedError(Exception):
    """A procedure reported an error for an element of a batch."""


@dataclass(slots=True)
class Requests:
    """The numbered requests of one batch: parallel arrays, as the procedures take them."""

    clients: list[int] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


class Calls:
    """Consecutive calls of one procedure on one connection."""

    procedure: Callable[..., calls.Statement]
    purpose: str

    def __init__(self, connection: asyncpg.Connection, plan: CeilingPlan, recorder: Recorder) -> None:
        self._connection = connection
        self._plan = plan
        self._recorder = recorder
        self._clients: list[int] = []
        self._sessions: list[int] = []
        self._queues = [plan.queue_ids[position % len(plan.queue_ids)] for position in range(plan.batch)]
        self._first = 1
        self._last = Requests()

    async def prepare(self) -> None:
        """Register the clients, and prepare the statement."""
        names = [f"ceiling-{self.purpose}-{index}" for index in range(self._plan.clients)]
        rows = []
        for name in names:
            register = calls.register_client(
                name=name,
                mode=FULL_MODE,
                token=os.urandom(16),
                attempt=None,
                temporary=False,
                process=None,
                library=None,
                address=None,
                asking_user=None,
            )
            rows += await self._connection.fetch(*register)
        chosen = [rows[position % len(rows)] for position in range(self._plan.batch)]
        self._clients = [row["client_id"] for row in chosen]
        self._sessions = [row["session"] for row in chosen]
        self._statement = await self._connection.prepare(calls.text_of(self.procedure))

    async def _fetch(self, statement: calls.Statement) -> list[asyncpg.Record]:
        _, *arguments = statement
        return await self._statement.fetch(*arguments)

    def _next(self) -> Requests:
        """Number the next batch. Numbers rise, and a client's requests in one batch have different ones."""
        first, self._first = self._first, self._first + self._plan.batch
        return Requests(self._clients, self._sessions, list(range(first, self._first)))


class PutCalls(Calls):
    """Calls of put_batch."""

    procedure = staticmethod(calls.put_batch)
    purpose = "put"

    def __init__(self, connection: asyncpg.Connection, plan: CeilingPlan, recorder: Recorder) -> None:
        super().__init__(connection, plan, recorder)
        # A stream for each queue: order is that of one queue.
        streams = [BodyMaker(number, plan.body_bytes) for number in range(len(plan.queue_ids))]
        self._streams = [streams[position % len(streams)] for position in range(plan.batch)]

    async def call(self) -> None:
        """Put one message for each request, and confirm the call before."""
        requests, last, count = self._next(), self._last, self._plan.batch
        began = time.monotonic()
        made = [stream.next(began, PRIORITY_ALONE) for stream in self._streams]
        bodies = [body for _, body in made]
        began = time.monotonic()
        rows = await self._fetch(
            calls.put_batch(
                client_ids=requests.clients,
                sessions=requests.sessions,
                numbers=requests.numbers,
                method_ids=[PUT_METHOD] * count,
                element_requests=range(1, count + 1),
                queue_ids=self._queues,
                receiver_ids=[0] * count,
                priorities=[PRIORITY_ALONE] * count,
                contexts=[None] * count,
                bodies=bodies,
                confirm_clients=last.clients,
                confirm_sessions=last.sessions,
                confirm_numbers=last.numbers,
                dedup_keys=None,
                delays_ms=None,
                lives_ms=None,
                partition_keys=None,
                middleware_id=None,
                headers=None,
            )
        )
        if rows[0]["errors"] is not None:
            raise CallFailedError(f"put_batch reported {rows[0]}")
        self._recorder.add_batch(
            Operation.PUT,
            PUT_SLOT,
            [identity for identity, _ in made],
            began,
            began,
            time.monotonic(),
            priority=PRIORITY_ALONE,
        )
        self._last = requests


class TakeCalls(Calls):
    """Calls of take_batch."""

    procedure = staticmethod(calls.take_batch)
    purpose = "take"

    async def call(self) -> None:
        """Take one message for each request, and confirm the call before."""
        requests, last, count = self._next(), self._last, self._plan.batch
        began = time.monotonic()
        rows = await self._fetch(
            calls.take_batch(
                client_ids=requests.clients,
                sessions=requests.sessions,
                numbers=requests.numbers,
                queue_ids=self._queues,
                max_messages=[1] * count,
                max_bytes=[BYTES_MAX] * count,
                confirm_clients=last.clients,
                confirm_sessions=last.sessions,
                confirm_numbers=last.numbers,
                middleware_id=None,
            )
        )
        ended = time.monotonic()
        failed = [row["error"] for row in rows if row["error"] is not None]
        if failed:
            raise CallFailedError(f"take_batch reported {failed[:5]}")
        # The rows are in the order of the requests, and the first request gets the first message.
        envelopes = open_envelopes(row["body"] for row in rows)
        self._recorder.add_batch(
            Operation.TAKE,
            TAKE_SLOT,
            envelopes["identity"],
            began,
            began,
            ended,
            priority=PRIORITY_ALONE,
            age=ended - envelopes["moment"],
        )
        self._last = requests


async def call_until_the_end(raw: Plan, start: StartSignal) -> Result:
    """Carry out a `CeilingPlan`; write the records into its file and return the rest."""
    plan = CeilingPlan(**raw)
    putting, taking = await connect(plan.database_url), await connect(plan.database_url)
    try:
        with Recorder(Path(plan.records)) as recorder:
            puts = PutCalls(putting, plan, recorder)
            # With one request a call both alternate on one connection.
            takes = TakeCalls(putting if plan.batch == 1 else taking, plan, recorder)
            await puts.prepare()
            await takes.prepare()
            end = await start.wait() + plan.seconds
            if not plan.with_takes:
                while time.monotonic() < end:
                    await puts.call()
            elif plan.batch == 1:
                while time.monotonic() < end:
                    await puts.call()
                    await takes.call()
            else:
                await _side_by_side(end, puts, takes)
    finally:
        await putting.close()
        await taking.close()
    return recorder.result()


async def _side_by_side(end: float, puts: PutCalls, takes: TakeCalls) -> None:
    """Put on one connection and take on the other; everything put is taken before the end."""
    ahead: asyncio.Queue[bool] = asyncio.Queue(BATCHES_AHEAD_MAX)

    async def put() -> None:
        while time.monotonic() < end:
            await puts.call()
            await ahead.put(True)
        await ahead.put(False)

    async def take() -> None:
        while await ahead.get():
            await takes.call()

    async with asyncio.TaskGroup() as group:
        group.create_task(put())
        group.create_task(take())


async def connect(database_url: str) -> asyncpg.Connection:
    """Connect as a middleware does: times are decoded to microseconds."""
    connection = await asyncpg.connect(database_url)
    await connection.set_type_codec(
        "timestamptz",
        schema="pg_catalog",
        format="tuple",
        encoder=lambda value: value,
        decoder=lambda value: value[0],
    )
    return connection


if __name__ == "__main__":
    run_worker(call_until_the_end)
