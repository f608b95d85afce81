"""Clients of the real service, while one of its middlewares stops or stands still."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from real_service import start_middleware, stop_middleware
from shells import LoopThread, Open
from started import STARTED
from telesto.client import ClientOptions

#: No call is given up for its time.
WITHOUT_LIMITS = ClientOptions(try_timeout=1000, call_timeout=1000)
PATIENCE_S = 60


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    with LoopThread().running() as thread:
        yield thread


@pytest.fixture
def middlewares(loop_thread: LoopThread, database_url: str) -> Iterator[list[Any]]:
    """Two middlewares on one database."""
    servers = [loop_thread.run(start_middleware(database_url)) for _ in range(2)]
    try:
        yield servers
    finally:
        for server in servers:
            loop_thread.run(stop_middleware(server))


def test_a_middleware_stops_under_its_clients(
    middlewares: list[Any], loop_thread: LoopThread, open_client: Open
) -> None:
    first, second = (f"{host}:{port}" for host, port in (server.address for server in middlewares))
    producer, consumer = (
        open_client(f"telesto://{first},{second}", name="producer"),
        open_client(f"telesto://{first},{second}", name="consumer"),
    )
    producer.connect()
    consumer.connect()
    queue_id = producer.create_queue("orders").queue_id
    stopped = threading.Event()

    def produce() -> list[int]:
        ids = []
        while len(ids) < 20 or not stopped.is_set() or producer.address != second:
            ids.append(producer.put_message(queue_id, b"%d" % len(ids)))
        producer.put_message(queue_id, b"end")
        return ids

    def consume() -> list[int]:
        taken = []
        while (message := consumer.retrieve_message(queue_id, timeout=PATIENCE_S)).body != b"end":
            assert not message.redelivered
            assert message.body == b"%d" % len(taken)
            taken.append(message.message_id)
        return taken

    with ThreadPoolExecutor(2) as executor:
        producing, consuming = executor.submit(produce), executor.submit(consume)
        loop_thread.run(stop_middleware(middlewares[0]))
        stopped.set()
        ids = producing.result(PATIENCE_S)
        assert consuming.result(PATIENCE_S) == ids
    assert (producer.address, consumer.address) == (second, second)


@contextmanager
def middleware_process(database_url: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A middleware in a process group of its own, and its address."""
    serve = [sys.executable, "-m", "telesto.cli.main", "serve", "--port", "0", "--json"]
    process = subprocess.Popen(
        [*STARTED, *serve, "--database-url", database_url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["url"].removeprefix("telesto://")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


def test_a_middleware_stands_still_under_its_clients(database_url: str, open_client: Open) -> None:
    """Whatever they wait for, they go on at another one, and not only when a request is given up."""
    with (
        middleware_process(database_url) as (process, first),
        middleware_process(database_url) as (_, second),
        ThreadPoolExecutor(3) as executor,
    ):
        clients = []
        for name in ("putting", "reading", "consuming"):
            clients.append(open_client(f"telesto://{first},{second}", options=WITHOUT_LIMITS, name=name))
            clients[-1].connect()
        putting, reading, consuming = clients
        assert [client.address for client in clients] == [first] * 3
        other = open_client(f"telesto://{second}", options=WITHOUT_LIMITS, name="other")
        other.connect()
        read_from, consumed, put_to = [
            other.create_queue(name).queue_id for name in ("read from", "consumed", "put to")
        ]
        with consuming.queue(consumed).consume() as consumer:
            read = executor.submit(reading.retrieve_message, read_from, timeout=25)
            consume = executor.submit(consumer.get, 25)
            os.killpg(process.pid, signal.SIGSTOP)
            put = executor.submit(putting.put_message, put_to, b"put")
            other.put_message(read_from, b"read")
            other.put_message(consumed, b"consumed")
            put.result(PATIENCE_S)
            assert read.result(PATIENCE_S).body == b"read"
            with consume.result(PATIENCE_S) as leased:
                assert leased.body == b"consumed"
        assert [client.address for client in clients] == [second] * 3
        assert other.retrieve_message(put_to).body == b"put"
        assert other.retrieve_message(put_to, timeout=0) is None


def test_a_consumer_ends_without_its_service(
    database_url: str, open_client: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not wait for an answer that changes nothing, and what may come again is said."""
    with middleware_process(database_url) as (process, address):
        client = open_client(f"telesto://{address}", name="consuming")
        queue = client.declare_queue("orders")
        queue.put(b"1")
        with queue.consume() as consumer, queue.consume() as idle:
            with consumer.get(PATIENCE_S) as leased:
                assert idle.get(0) is None
                os.killpg(process.pid, signal.SIGSTOP)
            begun = time.monotonic()
            assert leased.body == b"1"
        client.close()
        assert time.monotonic() - begun < ClientOptions().call_timeout / 2
    assert caplog.messages == [
        "the client is closed before the service has confirmed that 1 message is acknowledged, the first of "
        f"them {leased.message.message_id}: they may come again"
    ]
