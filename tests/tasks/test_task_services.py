"""Workers while the service is away, killed, and there again."""

import asyncio
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from started import STARTED
from task_workers import PATIENCE_S, until, working
from telesto.client import AuthenticationFailedError, TelestoClient
from telesto.middleware.security.login import make_verifier
from telesto.tasks import App, Worker

SERVE = ["-m", "telesto.cli.main", "serve", "--json"]
TASKS = 60


@contextmanager
def serving(database_url: str, port: int) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """A service, killed at the end of the block; its process and its port."""
    command = [*STARTED, sys.executable, *SERVE, "--database-url", database_url, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield process, int(json.loads(process.stdout.readline())["url"].rpartition(":")[2])
        finally:
            process.kill()


async def test_tasks_go_on_when_the_service_was_killed(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "telesto.tasks")
    ran: list[int] = []
    with serving(database_url, 0) as (_, port):
        app = App(f"telesto://127.0.0.1:{port}")

        @app.task(max_attempts=1_000, backoff=0, lease=5)
        async def work(number: int) -> None:
            await asyncio.sleep(0)
            ran.append(number)

        work.put_many(work.message(number) for number in range(TASKS))
        worker = Worker(app, concurrency=2)
        running = asyncio.create_task(worker.run())
        await until(lambda: len(ran) >= 5)
    await until(lambda: "the service is away" in caplog.text)
    with serving(database_url, port):
        await until(lambda: set(ran) == set(range(TASKS)))
        await until(lambda: "the service is there again" in caplog.text)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_S)
        with TelestoClient(app.url) as client:
            assert list(client.queue("tasks").dead_letters()) == []
        app.close()


async def test_a_worker_begins_when_the_service_does(database_url: str) -> None:
    with serving(database_url, 0) as (_, port):
        pass
    app = App(f"telesto://127.0.0.1:{port}")
    began = asyncio.Event()

    @app.task()
    async def work() -> None:
        began.set()

    with ExitStack() as service:  # it ends after the worker
        async with working(app):
            service.enter_context(serving(database_url, port))
            await asyncio.to_thread(work.put)
            await asyncio.wait_for(began.wait(), PATIENCE_S)
            app.close()


async def test_one_that_waits_for_the_service_says_so_and_can_be_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket() as taken:  # nothing listens there, and nobody else is given the port
        taken.bind(("127.0.0.1", 0))
        app = App(f"telesto://127.0.0.1:{taken.getsockname()[1]}")

        @app.task()
        async def work() -> None: ...

        worker = Worker(app)
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(PATIENCE_S):
            while "the service is away, waiting for it" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_S)
    assert not worker.working.is_set()


async def test_a_worker_ends_in_order_when_the_service_is_away(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What runs is finished, and it is said that it may come again."""
    began, may_end, ended = asyncio.Event(), asyncio.Event(), []
    with serving(database_url, 0) as (process, port):
        app = App(f"telesto://127.0.0.1:{port}")

        @app.task()
        async def work(number: int) -> None:
            began.set()
            await may_end.wait()
            ended.append(number)

        work.put(7)
        app.close()
        worker = Worker(app)
        running = asyncio.create_task(worker.run())
        await asyncio.wait_for(began.wait(), PATIENCE_S)
        process.send_signal(signal.SIGSTOP)
        worker.stop()
        may_end.set()
        await asyncio.wait_for(running, 15)
    assert ended == [7]
    assert "before the service has confirmed that 1 message is acknowledged" in caplog.text


@contextmanager
def guarded(database_url: str) -> Iterator[tuple[App, psycopg.Connection]]:
    """An application whose user may get from all queues, beside a service with users; and the database."""
    with psycopg.connect(database_url, autocommit=True) as database:
        database.execute(
            "INSERT INTO telesto.users (name, verifier, administrator, configure, put, get) "
            "VALUES ('ops', %s, true, '{}', '{}', '{}'), ('worker', %s, false, '{*}', '{*}', '{*}')",
            [make_verifier("hunter2")] * 2,
        )
        with serving(database_url, 0) as (_, port):
            app = App(f"telesto://worker:hunter2@127.0.0.1:{port}")
            yield app, database
            app.close()


@pytest.mark.parametrize(
    ("taken", "given", "said"),
    [
        ("get = '{kept}'", "get = '{*}'", "consuming queue lost: user 'worker' has no right"),
        ("enabled = false", "enabled = true", "logging in: the service refuses the login of 'worker'"),
    ],
)
async def test_a_worker_goes_on_when_what_it_may_do_is_taken_and_given_back(
    database_url: str, caplog: pytest.LogCaptureFixture, taken: str, given: str, said: str
) -> None:
    """It says so once, without a traceback; a queue that it may still get from goes on."""
    caplog.set_level(logging.INFO, "telesto.tasks")
    ran: list[str] = []
    with guarded(database_url) as (app, database):

        @app.task(queue="lost")
        async def lost(text: str) -> None:
            ran.append(text)

        @app.task(queue="kept")
        async def kept(text: str) -> None:
            ran.append(text)

        def change(what: str) -> None:
            database.execute(f"UPDATE telesto.users SET {what} WHERE name = 'worker'".encode())

        async with working(app):
            await asyncio.to_thread(lost.put, "one")
            await until(lambda: "one" in ran)
            await asyncio.to_thread(change, taken)
            await until(lambda: said in caplog.text)
            if "get" in taken:
                await asyncio.to_thread(kept.put, "two")
                await until(lambda: "two" in ran)
            else:
                with pytest.raises(AuthenticationFailedError):
                    await asyncio.to_thread(lost.put, "two")
            await asyncio.sleep(2.5)  # it is tried again meanwhile, and not told again
            assert caplog.text.count(said) == 1
            assert "Traceback" not in caplog.text
            assert "the service is away" not in caplog.text
            await asyncio.to_thread(change, given)
            await until(lambda: "it works again" in caplog.text)
            await asyncio.to_thread(lost.put, "three")
            await until(lambda: "three" in ran)


async def test_one_that_is_not_allowed_ends_when_it_is_stopped(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded(database_url) as (app, database):

        @app.task(queue="lost")
        async def lost() -> None: ...

        worker = Worker(app)
        running = asyncio.create_task(worker.run())
        await asyncio.wait_for(worker.working.wait(), PATIENCE_S)
        await asyncio.to_thread(
            database.execute, "UPDATE telesto.users SET enabled = false WHERE name = 'worker'"
        )
        await until(lambda: "logging in" in caplog.text)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE_S)


async def test_one_that_cannot_log_in_does_not_begin(database_url: str) -> None:
    with guarded(database_url) as (app, _):

        @app.task()
        async def work() -> None: ...

        app.url = str(app.url).replace("hunter2", "hunter2-wrong")
        with pytest.raises(AuthenticationFailedError, match="refuses the login of 'worker'"):
            await Worker(app).run()
