"""PostgreSQL is killed at the fifth of ten puts (scenario 6)."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from running import PATIENCE_S, serving
from telesto.client import ClientOptions, TelestoClient, TelestoError
from telesto.db import schema
from telesto.db.embedded.server import EmbeddedServer


@pytest.fixture
def database(data_dir: Path) -> Iterator[EmbeddedServer]:
    """A PostgreSQL of the test's own, with the schema."""
    with EmbeddedServer(data_dir) as server:
        schema.upgrade(server.url)
        yield server


def kill(database: EmbeddedServer) -> None:
    """Ends PostgreSQL at once, without a checkpoint."""
    pid = database.pid
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)
    while database.running:
        pass


def consume(url: str, queue_id: int, count: int) -> list[bytes]:
    """What a consumer is given, which acknowledges so many messages."""
    with TelestoClient(url, options=PATIENT, name="consumer") as client:
        client.connect()
        bodies = []
        with client.queue(queue_id).consume() as consumer:
            for _ in range(count):
                leased = consumer.get(PATIENCE_S)
                assert leased is not None
                leased.ack()
                bodies.append(leased.body)
        assert client.queue(queue_id).statistics().depth == 0
        return bodies


PATIENT = ClientOptions(call_timeout=PATIENCE_S, max_tries=1_000)
IMPATIENT = ClientOptions(call_timeout=6.0, max_tries=1)


def test_without_retries_what_was_acknowledged_is_delivered_and_the_rest_was_refused(
    database: EmbeddedServer,
) -> None:
    bodies = [b"%d" % number for number in range(10)]
    with serving(database.url) as service:
        with (
            TelestoClient(service["url"], options=IMPATIENT, name="producer") as client,
            ThreadPoolExecutor(6) as threads,
        ):
            client.connect()
            queue_id = client.create_queue("orders").queue_id
            for body in bodies[:4]:
                assert client.put_message(queue_id, body) > 0
            kill(database)
            # At the same time, since each waits for the time of a call.
            puts = [threads.submit(client.put_message, queue_id, body) for body in bodies[4:]]
            assert all(isinstance(put.exception(PATIENCE_S), TelestoError) for put in puts)
        database.start()
        assert consume(service["url"], queue_id, 4) == bodies[:4]


def test_with_retries_all_ten_arrive_once(database: EmbeddedServer) -> None:
    with serving(database.url) as service:
        with (
            TelestoClient(service["url"], options=PATIENT, name="producer") as client,
            ThreadPoolExecutor(1) as thread,
        ):
            client.connect()
            queue_id = client.create_queue("orders").queue_id
            for number in range(10):
                putting = thread.submit(client.put_message, queue_id, b"%d" % number)
                if number == 4:
                    kill(database)  # before, during or after the put
                    database.start()
                assert putting.result(PATIENCE_S) > 0
        assert consume(service["url"], queue_id, 10) == [b"%d" % number for number in range(10)]
