"""The database's clock is set while middlewares are at work."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from members import join
from telesto.middleware.common.failures import LostError, RefusedError
from telesto.middleware.database.clock import DatabaseClock
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.server import MiddlewareServer
from wire import until

#: In microseconds since 1970.
BEGIN_US = 1_800_000_000_000_000


class Database:
    """A clock that is set by the test, and the steps that have been noted."""

    def __init__(self) -> None:
        self.steady = 1_000.0
        self.set_s = 0.0
        self.steps = 0
        self.call_s = 0.0
        self.failure: Exception | None = None
        self.noted: list[tuple[int, int]] = []

    async def call(self, sql: str, *arguments: Any) -> list[Any]:
        self.steady += self.call_s / 2
        at = BEGIN_US + round((self.steady + self.set_s) * 1e6)
        self.steady += self.call_s / 2
        if "telesto.look_at_clock(" in sql:
            # Others that look at the same time see the same.
            await asyncio.sleep(0)
            return [{"at": at, "steps": self.steps, "last_id": 7}]
        if self.failure is not None:
            raise self.failure
        step_ms, steps, last_id = arguments
        assert last_id == 7
        if steps != self.steps:
            return [(False,)]
        self.steps += 1
        self.noted.append((step_ms, steps))
        return [(True,)]


class Watcher:
    """A middleware's watch over the clock."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.counters = Counters()
        self.clock = DatabaseClock(database.call, self.counters, lambda: database.steady)

    async def look(self, after_s: float = 1.0) -> None:
        self.database.steady += after_s
        await self.clock.look()


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.mark.parametrize("step_s", [3_600.0, -3_600.0, 2.5, -2.5])
async def test_a_step_is_noted_with_its_size_and_counted(database: Database, step_s: float) -> None:
    watcher = Watcher(database)
    await watcher.look()
    await watcher.look()
    database.set_s = step_s
    await watcher.look()
    assert database.noted == [(step_s * 1000, 0)]
    assert watcher.counters.clock_steps_total == 1
    for _ in range(3):
        await watcher.look()
    assert len(database.noted) == 1


async def test_a_clock_that_goes_on_is_not_taken_for_one_that_was_set(database: Database) -> None:
    """Neither when calls are slow, nor when the middleware was frozen or could not ask for long."""
    watcher = Watcher(database)
    for call_s in (0.0, 30.0, 0.0, 0.5, 30.0, 30.0, 0.0):
        database.call_s = call_s
        await watcher.look()
        await watcher.look(3_600.0)
    assert database.noted == []


async def test_a_step_is_noticed_although_a_look_was_slow_meanwhile(database: Database) -> None:
    watcher = Watcher(database)
    await watcher.look()
    database.set_s = 20.0
    database.call_s = 60.0
    await watcher.look()
    assert database.noted == []
    database.call_s = 0.0
    await watcher.look()
    assert database.noted == [(20_000, 0)]


async def test_small_corrections_add_up_to_no_step(database: Database) -> None:
    watcher = Watcher(database)
    for _ in range(20):
        database.set_s += 0.4
        await watcher.look()
    assert database.noted == []


async def test_of_several_middlewares_one_notes_a_step(database: Database) -> None:
    watchers = [Watcher(database) for _ in range(3)]
    for watcher in watchers:
        await watcher.look()
    database.set_s = 60.0
    for _ in range(3):
        for watcher in watchers:
            await watcher.look(0.1)
    assert database.noted == [(60_000, 0)]
    assert sum(watcher.counters.clock_steps_total for watcher in watchers) == 1


async def test_of_two_that_notice_a_step_at_the_same_time_one_notes_it(database: Database) -> None:
    watchers = [Watcher(database) for _ in range(2)]
    for watcher in watchers:
        await watcher.look()
    database.set_s = 60.0
    await asyncio.gather(*(watcher.look(0.0) for watcher in watchers))
    assert database.noted == [(60_000, 0)]
    assert [watcher.counters.clock_steps_total for watcher in watchers] == [1, 0]


async def test_a_step_of_which_nobody_knows_whether_it_was_noted_is_looked_for(database: Database) -> None:
    watcher = Watcher(database)
    await watcher.look()
    database.set_s = 60.0
    database.failure = LostError("gone")
    with pytest.raises(LostError):
        await watcher.look()
    database.failure = None
    await watcher.look()
    assert database.noted == [(60_000, 0)]


async def test_a_step_that_the_database_refuses_to_note_is_not_tried_for_ever(database: Database) -> None:
    watcher = Watcher(database)
    await watcher.look()
    database.set_s = 60.0
    database.failure = RefusedError("53200", "out of shared memory")
    await watcher.look()
    database.failure = None
    await watcher.look()
    await watcher.look()
    assert database.noted == []


async def test_until_a_step_is_noticed_the_time_goes_on_as_if_there_were_none(database: Database) -> None:
    watcher = Watcher(database)
    assert watcher.clock.latest() is None
    await watcher.look()
    database.set_s = 3_600.0
    database.steady += 10.0
    latest = watcher.clock.latest()
    assert latest is not None
    true_time = BEGIN_US + database.steady * 1e6
    assert true_time < latest < true_time + 5e6


# --- in middlewares --------------------------------------------------------------------------

#: All that is stored moves the other way, which is the same as a clock that was set.
MOVE = (
    "UPDATE telesto.leases SET deadline = deadline - $1::interval",
    "UPDATE telesto.middlewares SET heartbeat_at = heartbeat_at - $1::interval",
    "UPDATE telesto.delayed_messages SET due_at = due_at - $1::interval",
    "UPDATE telesto.jobs SET deadline = deadline - $1::interval",
    """
    UPDATE telesto.jobs SET position = greatest(0, position - extract(epoch FROM $1::interval) * 1000000)
    WHERE job IN ('leases', 'delayed')
    """,
)


#: So many wait to note the step.
NOTING = """
SELECT count(*) = $1 FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%note_clock_step%'
"""


async def until_beaten(servers: list[MiddlewareServer]) -> None:
    """Waits for the next sign of life of each."""
    beats = [server.registry.beat_at for server in servers]
    await until(
        lambda: all(server.registry.beat_at > beat for server, beat in zip(servers, beats, strict=True))
    )


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    connection.terminate()


@pytest.fixture
async def watcher(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Outside of the transaction, which would see what there was when it looked first."""
    watcher = await asyncpg.connect(database_url)
    yield watcher
    watcher.terminate()


@pytest.mark.parametrize("hours", [1, -1])
async def test_consumers_and_middlewares_do_not_notice_that_the_clock_was_set(
    connect: Connect,
    start_middleware: StartMiddleware,
    connection: asyncpg.Connection,
    watcher: asyncpg.Connection,
    hours: int,
) -> None:
    settings: dict[str, Any] = {"heartbeat_interval_s": 0.1, "due_sweep_interval_s": 0.05}
    servers = [await start_middleware(**settings) for _ in range(2)]
    was = [server.peers.middleware_id for server in servers]
    wires = [await (await connect(server)).register() for server in servers]
    queue_id = await wires[0].create_queue()
    consumers = [await join(wire, queue_id) for wire in wires]
    for _ in range(2):
        await wires[0].put_one(queue_id)
    delayed_id = await wires[0].put_one(queue_id, delay_ms=3 * 3_600_000)
    await until(lambda: connection.fetchval("SELECT count(*) = 2 FROM telesto.leases"))
    # Only what was put before a look is known to have been put before the step.
    for server in servers:
        server.database_clock.work.poke()
    clocks = [server.database_clock for server in servers]
    await until(lambda: all(clock.last and clock.last.last_id >= delayed_id for clock in clocks))

    step = timedelta(hours=hours)
    async with connection.transaction():
        # Nobody notes the step before all of it is there, nor is a call under way that began before it.
        await connection.execute("SELECT FROM telesto.clock FOR UPDATE")
        for clock in clocks:
            last = clock.last
            assert last is not None
            clock.last = replace(last, at_us=last.at_us - hours * 3_600_000_000)
        await until(lambda: watcher.fetchval(NOTING, len(servers)))
        for _ in range(2):
            await until_beaten(servers)
        for statement in MOVE:
            await connection.execute(statement, step)
    await until(lambda: connection.fetchval("SELECT steps = 1 FROM telesto.clock"))
    for server in servers:
        server.database_clock.work.poke()
    await until(lambda: all(clock.last and clock.last.steps == 1 for clock in clocks))
    assert sum(server.counters.clock_steps_total for server in servers) == 1

    await until_beaten(servers)
    assert [server.peers.middleware_id for server in servers] == was
    assert await connection.fetchval("SELECT count(*) FROM telesto.leases") == 2
    left = await connection.fetchval("SELECT min(deadline) - clock_timestamp() FROM telesto.leases")
    assert timedelta() < left <= timedelta(seconds=30)
    left = await connection.fetchval("SELECT due_at - clock_timestamp() FROM telesto.delayed_messages")
    assert timedelta(hours=2) < left <= timedelta(hours=3)
    assert await connection.fetchval("SELECT steps FROM telesto.clock") == 1
    assert len(consumers) == 2
