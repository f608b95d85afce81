"""The ceiling: bare asyncpg calling the array procedures from one process, without wire or client library.

The calls do all that a middleware's do: numbered requests of several clients, and each call confirms
the requests of the one before. With the workload `put-read` one connection puts while another takes;
with a batch of one both alternate on one connection, to give the latency of a single call.
"""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import asyncpg

from telesto.benchmarks.bodies import BodyMaker, identity_of
from telesto.benchmarks.records import Record
from telesto.benchmarks.tally import Tally, Workload, save_tally
from telesto.benchmarks.worker import Gate, Plan, Result, run_worker

_PUT_METHOD: Final = 0x31
FULL_MODE: Final = 1
_MAX_BYTES: Final = 1 << 20
BATCHES_AHEAD_MAX: Final = 8
"""How many batches the putting connection may be ahead of the taking one."""


def _call(procedure: str, element_types: str) -> str:
    """Return the statement that calls a procedure with arrays of these types."""
    arguments = (f"${position}::{name}[]" for position, name in enumerate(element_types.split(), 1))
    return f"SELECT * FROM telesto.{procedure}({', '.join(arguments)})"


_CONFIRMED: Final = "bigint bigint bigint"
_PUT: Final = _call(
    "put_batch", f"bigint bigint bigint smallint int bigint bigint smallint bigint bytea {_CONFIRMED}"
)
_TAKE: Final = _call("take_batch", f"bigint bigint bigint bigint int int {_CONFIRMED}")
REGISTER: Final = "SELECT client_id, session FROM telesto.register_client($1, $2::smallint, $3)"


@dataclass(frozen=True, slots=True)
class CeilingPlan:
    """What the process of the ceiling does. `names` begins the names of the clients it registers."""

    database_url: str
    queue_ids: list[int]
    workload: Workload
    clients: int
    batch: int
    seconds: float
    directory: str
    names: str
    stream: int = 0
    body_bytes: int = 200
    priority: int = 5

    def as_plan(self) -> Plan:
        """Return the plan as a worker receives it."""
        return asdict(self)


class CallFailedError(Exception):
    """A procedure reported an error for an element of a batch, which no batch of the ceiling should meet."""


@dataclass(slots=True)
class Requests:
    """The numbered requests of one batch: parallel arrays, as the procedures take them."""

    clients: list[int] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


class Numbering:
    """Spreads the requests of each batch over some clients, and numbers them."""

    def __init__(self, clients: Sequence[tuple[int, int]], batch: int) -> None:
        self._batch = batch
        self._clients = [clients[position % len(clients)] for position in range(batch)]
        self._first = 1

    def next(self) -> Requests:
        """Return the next batch. Numbers rise; a client's requests in one batch have different ones."""
        first, self._first = self._first, self._first + self._batch
        requests = Requests(numbers=list(range(first, self._first)))
        requests.clients = [client for client, _ in self._clients]
        requests.sessions = [session for _, session in self._clients]
        return requests


def spread(queue_ids: Sequence[int], count: int) -> list[int]:
    """Return the queue of each of `count` elements, in turn."""
    return [queue_ids[position % len(queue_ids)] for position in range(count)]


class PutCalls:
    """Calls of put_batch on one connection, one after the other."""

    def __init__(self, statement: asyncpg.prepared_stmt.PreparedStatement, plan: CeilingPlan) -> None:
        self._statement = statement
        self._plan = plan
        self._bodies = BodyMaker(plan.stream, plan.body_bytes)
        self._last = Requests()

    async def call(self, requests: Requests, record: Record) -> None:
        """Put one message for each request, and confirm the call before."""
        count, plan, last = len(requests.numbers), self._plan, self._last
        made = [self._bodies.next() for _ in range(count)]
        bodies = [body for _, body in made]
        began = time.monotonic()
        row = await self._statement.fetchrow(
            *(requests.clients, requests.sessions, requests.numbers, [_PUT_METHOD] * count),
            *(range(1, count + 1), spread(plan.queue_ids, count), [0] * count, [plan.priority] * count),
            *([None] * count, bodies, last.clients, last.sessions, last.numbers),
        )
        if row is None or row["errors"] is not None:
            raise CallFailedError(f"put_batch reported {row}")
        record.add_batch((identity for identity, _ in made), began, time.monotonic())
        # Unrecorded requests (number 0) leave nothing to confirm.
        self._last = requests if requests.numbers[0] else Requests()


class TakeCalls:
    """Calls of take_batch on one connection, one after the other."""

    def __init__(self, statement: asyncpg.prepared_stmt.PreparedStatement, plan: CeilingPlan) -> None:
        self._statement = statement
        self._plan = plan
        self._last = Requests()

    async def call(self, requests: Requests, record: Record) -> None:
        """Take one message for each request, and confirm the call before."""
        count, last = len(requests.numbers), self._last
        began = time.monotonic()
        rows = await self._statement.fetch(
            *(requests.clients, requests.sessions, requests.numbers, spread(self._plan.queue_ids, count)),
            *([1] * count, [_MAX_BYTES] * count, last.clients, last.sessions, last.numbers),
        )
        failed = [row["error"] for row in rows if row["error"] is not None]
        if failed:
            raise CallFailedError(f"take_batch reported {failed[:5]}")
        record.add_batch([identity_of(row["body"]) for row in rows], began, time.monotonic())
        self._last = requests


async def run_ceiling(raw: Plan, gate: Gate) -> Result:
    """Carry out a `CeilingPlan`; leave the records in its directory."""
    plan = CeilingPlan(**raw)
    putting, taking = await connect(plan.database_url), await connect(plan.database_url)
    try:
        put_numbers = Numbering(await register(putting, plan, "put"), plan.batch)
        take_numbers = Numbering(await register(putting, plan, "take"), plan.batch)
        puts = PutCalls(await putting.prepare(_PUT), plan)
        takes = TakeCalls(await taking.prepare(_TAKE), plan)
        tally = Tally()
        end = await gate.wait() + plan.seconds
        if plan.workload == "put":
            await _put_until(end, puts, put_numbers, tally)
        elif plan.batch == 1:
            await _alternate_until(end, puts, put_numbers, takes, take_numbers, tally)
        else:
            await _side_by_side_until(end, puts, put_numbers, takes, take_numbers, tally)
    finally:
        await putting.close()
        await taking.close()
    return save_tally(tally, Path(plan.directory), f"ceiling-{plan.stream}")


async def _put_until(end: float, puts: PutCalls, numbers: Numbering, tally: Tally) -> None:
    while time.monotonic() < end:
        await puts.call(numbers.next(), tally.puts)


async def _alternate_until(
    end: float,
    puts: PutCalls,
    put_numbers: Numbering,
    takes: TakeCalls,
    take_numbers: Numbering,
    tally: Tally,
) -> None:
    while time.monotonic() < end:
        await puts.call(put_numbers.next(), tally.puts)
        await takes.call(take_numbers.next(), tally.takes)


async def _side_by_side_until(
    end: float,
    puts: PutCalls,
    put_numbers: Numbering,
    takes: TakeCalls,
    take_numbers: Numbering,
    tally: Tally,
) -> None:
    """Put on one connection and take on the other; what was put is taken before the end."""
    ahead: asyncio.Queue[bool] = asyncio.Queue(BATCHES_AHEAD_MAX)

    async def put() -> None:
        while time.monotonic() < end:
            await puts.call(put_numbers.next(), tally.puts)
            await ahead.put(True)
        await ahead.put(False)

    async def take() -> None:
        while await ahead.get():
            await takes.call(take_numbers.next(), tally.takes)

    async with asyncio.TaskGroup() as group:
        group.create_task(put())
        group.create_task(take())


async def connect(database_url: str) -> asyncpg.Connection:
    """Connect as a middleware's pool does: times are decoded to microseconds."""
    connection = await asyncpg.connect(database_url)
    await connection.set_type_codec(
        "timestamptz",
        schema="pg_catalog",
        format="tuple",
        encoder=lambda value: value,
        decoder=lambda value: value[0],
    )
    return connection


async def register(connection: asyncpg.Connection, plan: CeilingPlan, purpose: str) -> list[tuple[int, int]]:
    """Register the clients of one kind of call; return their ids and sessions."""
    names = [f"{plan.names}-{purpose}-{index}" for index in range(plan.clients)]
    rows = [await connection.fetchrow(REGISTER, name, FULL_MODE, os.urandom(16)) for name in names]
    return [(row["client_id"], row["session"]) for row in rows if row is not None]


async def fill(connection: asyncpg.Connection, messages: int, plan: CeilingPlan) -> array[int]:
    """Put many messages quickly, unrecorded (number 0); return their identities."""
    clients = await register(connection, plan, "fill")
    puts = PutCalls(await connection.prepare(_PUT), plan)
    record = Record()
    while len(record.identities) < messages:
        count = min(plan.batch, messages - len(record.identities))
        client, session = clients[0]
        await puts.call(Requests([client] * count, [session] * count, [0] * count), record)
    return record.identities


if __name__ == "__main__":
    run_worker(run_ceiling)
