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

import pytest

from started import STARTED
from task_workers import PATIENCE_S, until, working
from telesto.client import TelestoClient
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
