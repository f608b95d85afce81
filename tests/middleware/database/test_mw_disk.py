"""Puts are refused while the database's disk is nearly full; everything else goes on."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from telesto.middleware.common.failures import LostError, UnavailableError
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database import disk
from telesto.middleware.database.connection import DatabaseConnection
from telesto.middleware.database.disk import CHECKPOINT, MAX_WAL, RIGHTS, ROWS, SIZE, VACUUM, Disk
from telesto.middleware.database.primary import Epoch, Primary
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from wire import PATIENCE_S, Wire, until

MIB = 1 << 20
#: As large as the reserve of a small disk, which has 1,000 MiB here.
LEFT = 128


class Machine:
    """A disk, a database on it, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **settings: Any) -> None:
        self.free = 500
        self.rows: int | None = 1_000
        self.size = 0
        self.max_wal = 0
        self.now = 100.0
        self.may = (True, True)
        self.failure: Exception | None = None
        self.asked: list[str] = []
        self.counters = Counters()
        monkeypatch.setattr(
            os, "statvfs", lambda _: SimpleNamespace(f_bavail=self.free, f_blocks=1_000, f_frsize=MIB)
        )
        values = {"disk_directory": tmp_path, "max_database_bytes": None} | settings
        self.disk = Disk(self._call, self.counters, ServerSettings(**values), lambda: self.now)

    async def _call(self, sql: str, *_arguments: object) -> list[Any]:
        self.asked.append(sql)
        if self.failure is not None:
            raise self.failure
        answers = {
            RIGHTS: self.may,
            ROWS: (self.rows,),
            SIZE: (self.size * MIB,),
            MAX_WAL: (self.max_wal,),
            VACUUM: (),
            CHECKPOINT: (),
        }
        return [answers[sql]]

    async def look(self, free: int | None = None) -> bool:
        """Whether puts are refused once the disk has been looked at."""
        self.free = self.free if free is None else free
        self.now += 1
        await self.disk.look()
        return self.disk.is_full


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


async def test_puts_are_refused_below_the_reserve_and_taken_well_above_it(machine: Machine) -> None:
    assert not await machine.look(LEFT)
    assert not machine.disk.is_full
    assert await machine.look(LEFT - 1)
    failure = machine.disk.refusal(3)
    assert failure is not None
    assert (failure.code, failure.error_class) == (ErrorCode.DISK_FULL, ErrorClass.RETRYABLE)
    assert machine.counters.refused_total == {ErrorCode.DISK_FULL: 3}
    # A little more is no reason to begin again.
    assert await machine.look(LEFT + 1)
    assert not await machine.look(LEFT + LEFT // 8)


async def test_the_reserve_is_a_tenth_of_a_large_disk_and_no_more_than_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path, disk_reserve_bytes=10 * MIB)
    assert not await machine.look(10)
    assert await machine.look(9)
    monkeypatch.setattr(disk, "PART_OF_DISK", 5)
    assert await Machine(monkeypatch, tmp_path).look(199)
    assert not await Machine(monkeypatch, tmp_path).look(200)


async def test_what_the_log_may_still_take_counts_as_used(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "pg_wal").mkdir()
    (tmp_path / "pg_wal" / "one").write_bytes(bytes(1_000))
    machine.max_wal = 50 * MIB + 1_000
    assert not await machine.look(LEFT + 50)
    assert await machine.look(LEFT + 49)


async def test_space_in_the_tables_counts_once_an_eighth_is_gone_and_vacuumed(machine: Machine) -> None:
    """The files of the tables do not shrink, so that the disk never tells."""
    assert await machine.look(LEFT - 10)
    machine.rows = 876
    assert await machine.look()
    machine.rows = 875
    assert not await machine.look()
    # Puts use what is in the tables, and the disk has no less.
    assert not await machine.look(LEFT - 17)
    # That was not so: the disk lost as much as was tried.
    assert await machine.look(LEFT - 19)
    assert await machine.look()
    machine.rows = 760
    assert not await machine.look()


async def test_the_last_quarter_of_the_reserve_is_for_what_takes_messages_out(machine: Machine) -> None:
    assert await machine.look(LEFT // 4)
    machine.rows = 1
    assert await machine.look()


async def test_a_server_that_has_forgotten_its_rows_is_asked_again(machine: Machine) -> None:
    assert await machine.look(LEFT - 10)
    machine.rows = None
    assert await machine.look()
    machine.rows = 876
    assert await machine.look()
    machine.rows = 875
    assert not await machine.look()


@pytest.mark.parametrize("counted", [0, None, 100])
async def test_rows_that_are_counted_late_or_never_do_not_keep_it_full(
    machine: Machine, counted: int | None
) -> None:
    """The disk was full before PostgreSQL had counted, and all was taken out before it was counted again."""
    machine.rows = counted
    assert await machine.look(LEFT - 10)
    machine.rows = 0
    assert not await machine.look()


async def test_rows_that_are_counted_late_are_those_that_have_to_go(machine: Machine) -> None:
    machine.rows = 100
    assert await machine.look(LEFT - 10)
    machine.rows = 1_000
    assert await machine.look()
    machine.rows = 876
    assert await machine.look()
    machine.rows = 875
    assert not await machine.look()


@pytest.mark.parametrize(
    ("may", "asked"), [((True, True), [VACUUM, CHECKPOINT]), ((True, False), [VACUUM]), ((False, False), [])]
)
async def test_while_it_is_full_postgresql_is_to_give_back_what_it_need_not_keep(
    machine: Machine, may: tuple[bool, bool], asked: list[str]
) -> None:
    machine.may = may
    await machine.look(LEFT - 10)
    machine.asked.clear()
    await machine.look()
    assert [sql for sql in machine.asked if sql in (VACUUM, CHECKPOINT)] == asked


async def test_reads_wait_for_space_only_while_there_is_little(machine: Machine) -> None:
    await machine.look(LEFT - 1)
    await machine.disk.pace()
    await machine.look(LEFT // 2)
    waiting = asyncio.create_task(machine.disk.pace())
    await asyncio.sleep(0)
    assert not waiting.done()
    await machine.look()
    await asyncio.wait_for(waiting, PATIENCE_S)
    assert VACUUM in machine.asked


@pytest.mark.parametrize("failure", [UnavailableError("away"), LostError("lost")])
async def test_reads_go_on_waiting_while_the_database_cannot_free_space(
    machine: Machine, failure: Exception
) -> None:
    """PostgreSQL that has just met the full disk begins anew: unpaced reads would end it again."""
    await machine.look(LEFT - 1)
    await machine.look(LEFT // 2)
    waiting = asyncio.create_task(machine.disk.pace())
    await asyncio.sleep(0)
    machine.failure = failure
    for _ in range(3):
        await machine.look()
        await asyncio.sleep(0)
        assert not waiting.done()
    machine.failure = None
    await machine.look()
    await asyncio.wait_for(waiting, PATIENCE_S)


async def test_without_a_disk_to_see_the_database_has_a_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path, disk_directory=None, max_database_bytes=1_000 * MIB)
    machine.size = 1_000 - LEFT
    assert not await machine.look()
    machine.size += 1
    assert await machine.look()
    machine.size -= 20
    assert not await machine.look()


async def test_a_directory_that_cannot_be_looked_at_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_: object) -> None:
        raise PermissionError

    machine = Machine(monkeypatch, tmp_path)
    monkeypatch.setattr(os, "statvfs", fail)
    assert not await machine.look()
    assert machine.disk.free is None


async def test_what_the_database_says_counts_for_a_while(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path, disk_directory=None)
    assert machine.disk.work.period_s is None
    machine.disk.refused_by_database()
    assert machine.disk.is_full
    assert await machine.look()
    machine.now += disk.RETRY_S
    assert not await machine.look()
    assert machine.disk.work.period_s is None


# --- in a middleware -------------------------------------------------------------------------
async def test_only_what_stores_is_refused(
    connect: Connect, server: MiddlewareServer, wire: Wire, database_url: str
) -> None:
    reader = await (await connect(server)).register()
    queue_id = await wire.create_queue()
    for _ in range(3):
        await wire.put_one(queue_id)
    server.disk.is_full = True
    answers = [await wire.put(queue_id)]
    wire.resume()
    publication = packets.PutToTopic(wire.number(), [], "topic", [packets.NewTopicMessage(b"news")])
    answers.append(await wire.ask(publication))
    for answer in answers:
        assert (answer.code, answer.error_class) == (ErrorCode.DISK_FULL, ErrorClass.RETRYABLE)
        assert answer.retry_after_ms == 1_000
    assert len(await reader.read_now(queue_id)) == 1
    confirmation = packets.Confirm([1], [], [])
    assert not isinstance(await reader.ask(confirmation), packets.Error)
    purged = await reader.ask(packets.PurgeQueue(reader.number(), [], queue_id))
    assert isinstance(purged, packets.PurgeQueueResponse)
    server.disk.is_full = False
    wire.resume()
    await wire.put_one(queue_id)


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON telesto.messages EXECUTE FUNCTION full_disk();
"""


async def test_a_put_for_which_the_database_has_no_space_stops_the_others_for_a_while(
    connect: Connect, start_middleware: StartMiddleware, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "RETRY_S", 0.2)
    monkeypatch.setattr(disk, "PERIOD_S", 0.05)
    server = await start_middleware()
    wire = await (await connect(server)).register()
    queue_id = await wire.create_queue()
    admin = await asyncpg.connect(database_url)
    await admin.execute(FULL)
    answers = await asyncio.gather(*(wire.put(queue_id) for _ in range(8)))
    assert [answer.code for answer in answers] == [ErrorCode.DISK_FULL] * 8
    assert server.disk.is_full
    await admin.execute("DROP TRIGGER full_disk ON telesto.messages")
    await admin.close()

    async def taken() -> bool:
        wire.resume()
        return not isinstance(await wire.put(queue_id), packets.Error)

    await until(taken)
    assert not server.disk.is_full


async def test_the_remedies_and_the_count_are_what_postgresql_understands(database_url: str) -> None:
    """Also for a user who may not use them: a warning would be taken for one about a commit."""
    link = DatabaseConnection("test", Primary(database_url, 5.0, 5_000, Epoch()).connect, 0.01)
    answers: dict[str, list[Any]] = {}

    async def call(sql: str, *arguments: Any) -> list[Any]:
        answers[sql] = []
        answers[sql] = await link.call(sql, *arguments)
        return answers[sql]

    loop = asyncio.get_running_loop()
    full = Disk(call, Counters(), ServerSettings(disk_directory=None, max_database_bytes=1), loop.time)
    for _ in range(3):  # the last one counts what was vacuumed
        await full.look()
    assert full.is_full
    assert list(answers) == [SIZE, ROWS, RIGHTS, VACUUM, CHECKPOINT]
    assert isinstance(answers[ROWS][0][0], int)
    assert link.lost_count == 0
    await link.close()
