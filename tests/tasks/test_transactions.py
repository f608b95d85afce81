"""Tasks that run in a transaction with the acknowledgement of their message."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest

from faults.waiting import wait_until
from started import STARTED
from task_workers import PATIENCE_S, until, working
from telesto.client import NewMessage, TelestoClient
from telesto.tasks import App, Worker

PROGRAM = Path(__file__).with_name("task_transactions.py")
TASKS, KILLS, BEGUN = 40, 3, 5


@pytest.fixture
def database(tasks_database_url: str) -> Iterator[psycopg.Connection]:
    """The database, with an empty table."""
    with psycopg.connect(tasks_database_url, autocommit=True) as database:
        database.execute("CREATE TABLE IF NOT EXISTS work (number int)")
        database.execute("TRUNCATE work")
        yield database


def worked(database: psycopg.Connection) -> list[int]:
    return sorted(number for (number,) in database.execute("SELECT number FROM work"))


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_what_fails_leaves_nothing_behind(
    app: App,
    queue: str,
    database: psycopg.Connection,
    letters: Callable[[], list[str]],
    client: TelestoClient,
    is_coroutine: bool,
) -> None:
    if is_coroutine:

        @app.task(queue=queue, transaction=True, max_attempts=2, backoff=0)
        async def work(connection: Any, number: int) -> None:
            await connection.execute("INSERT INTO work VALUES (%s)", [number])
            if number == 0:
                raise ValueError("no")
    else:

        @app.task(queue=queue, transaction=True, max_attempts=2, backoff=0)
        def work(connection: Any, number: int) -> None:
            connection.execute("INSERT INTO work VALUES (%s)", [number])
            if number == 0:
                raise ValueError("no")

    for number in range(4):
        work.put(number)
    with pytest.raises(TypeError, match="connection"):
        work(7)
    async with working(app):
        await until(lambda: letters() and len(worked(database)) == 3)
    assert letters() == ["failed: ValueError: no"]
    assert worked(database) == [1, 2, 3]
    assert client.queue(queue).statistics().depth == 0


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_a_transaction_that_fails_at_its_commit_comes_again(
    app: App,
    queue: str,
    database: psycopg.Connection,
    letters: Callable[[], list[str]],
    client: TelestoClient,
    is_coroutine: bool,
) -> None:
    """As by a constraint that is checked then; neither its work nor its acknowledgement is done."""
    database.execute("CREATE TABLE IF NOT EXISTS once (number int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    database.execute("TRUNCATE once")
    attempts: list[int] = []

    def begin(number: int) -> bytes:
        attempts.append(number)
        return b"INSERT INTO once VALUES (%d), (%d)" % (number, number + (attempts.count(number) == 3))

    async def coroutine(connection: Any, number: int) -> None:
        await connection.execute(begin(number))

    def plain(connection: Any, number: int) -> None:
        connection.execute(begin(number))

    declare: Any = app.task(queue=queue, name="work", transaction=True, max_attempts=3, backoff=0)
    declare(coroutine if is_coroutine else plain).put(1)
    async with working(app):
        await until(lambda: database.execute("SELECT FROM once").fetchall())
    assert attempts == [1, 1, 1]
    assert database.execute("SELECT number FROM once ORDER BY number").fetchall() == [(1,), (2,)]
    assert letters() == []
    assert client.queue(queue).statistics().depth == 0


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_a_database_that_cannot_be_reached_costs_no_attempts(
    url: str, queue: str, client: TelestoClient, is_coroutine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = psycopg_pool.AsyncConnectionPool if is_coroutine else psycopg_pool.ConnectionPool
    monkeypatch.setattr(kind, "wait", partialmethod(kind.wait, timeout=0.5))
    app = App(url, database="postgresql://127.0.0.1:1/nowhere")

    async def coroutine(connection: Any) -> None: ...

    def plain(connection: Any) -> None: ...

    declare: Any = app.task(queue=queue, name="work", transaction=True)
    declare(coroutine if is_coroutine else plain).put()
    app.close()
    with pytest.raises(psycopg_pool.PoolTimeout):
        await asyncio.wait_for(Worker(app).run(), PATIENCE_S)
    message = client.queue(queue).get(timeout=PATIENCE_S)
    assert message.attempt == 1


async def test_one_whose_lease_is_lost_changes_nothing(
    app: App, queue: str, database: psycopg.Connection, client: TelestoClient
) -> None:
    tries: list[int] = []

    @app.before
    def lose(task: Any, message: Any) -> None:
        tries.append(message.attempt)
        if len(tries) == 1:  # as if its time had been up
            database.execute("SELECT telesto.ack(%s, %s, %s)", message.lease)

    @app.task(queue=queue, transaction=True, max_attempts=1)
    def work(connection: Any, number: int) -> None:
        connection.execute("INSERT INTO work VALUES (%s)", [number])

    work.put(1)
    work.put(2)
    async with working(app, concurrency=1):
        await until(lambda: worked(database))
    assert worked(database) == [2]


def test_each_task_has_its_effect_once_however_workers_die(
    url: str, tasks_database_url: str, queue: str, database: psycopg.Connection, client: TelestoClient
) -> None:
    given = json.dumps({"url": url, "database": tasks_database_url, "queue": queue})
    command = [*STARTED, sys.executable, str(PROGRAM), given]
    handle = client.declare_queue(queue, lease=2, max_attempts=1_000, backoff=0)
    names = ["plain", "coroutine"]
    handle.put_many(
        NewMessage({"number": number}, headers={"task": names[number % 2]}) for number in range(TASKS)
    )
    for last in [False] * KILLS + [True]:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            if last:
                wait_until(lambda: len(worked(database)) >= TASKS)
            else:
                for _ in range(BEGUN):
                    assert process.stdout.readline()
            process.kill()
    assert worked(database) == list(range(TASKS))
    assert list(handle.dead_letters()) == []
