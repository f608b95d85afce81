"""Clients of the real service, while one of its middlewares stops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from real_service import start_middleware, stop_middleware
from shells import LoopThread, Open


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
        open_client(f"telesto://{first},{second}"),
        open_client(f"telesto://{first},{second}"),
    )
    producer.connect(name="producer")
    consumer.connect(name="consumer")
    queue_id = producer.create_queue("orders").queue_id
    stopping = threading.Event()

    def produce() -> list[int]:
        ids = []
        while len(ids) < 20 or not stopping.is_set() or producer.address != second:
            ids.append(producer.put_message(queue_id, b"%d" % len(ids)))
        return ids

    def consume() -> list[int]:
        taken = []
        while (message := consumer.retrieve_message(queue_id, timeout=2)) is not None:
            assert not message.redelivered
            assert message.body == b"%d" % len(taken)
            taken.append(message.message_id)
        return taken

    with ThreadPoolExecutor(2) as executor:
        producing, consuming = executor.submit(produce), executor.submit(consume)
        loop_thread.run(stop_middleware(middlewares[0]))
        stopping.set()
        ids = producing.result(60)
        assert consuming.result(60) == ids
    assert (producer.address, consumer.address) == (second, second)
