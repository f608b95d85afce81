"""Acknowledging by telesto.ack in the application's own transactions, with both clients."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from telesto.client import Queue
from telesto.client.models import LeaseId

Connect = Callable[..., Any]
ACK = "SELECT telesto.ack(%s, %s, %s)"
WORK = "INSERT INTO work VALUES (convert_from(%s, 'UTF8')::int)"
PATIENCE_S = 60


@pytest.fixture
def service_url(real_service_url: str) -> str:
    """Consumers need the real service."""
    return real_service_url


@pytest.fixture
def queue_id(client: Any) -> int:
    queue: Queue = client.create_queue("orders", backoff=0)
    return queue.queue_id


@pytest.fixture
def database(database_url: str) -> Iterator[psycopg.Connection]:
    """The application's database."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE work (number int)")
        yield connection


def put_numbers(client: Any, queue_id: int, count: int) -> None:
    client.queue(queue_id).put_many([b"%d" % number for number in range(count)])


def work_on(database: psycopg.Connection, message: Any) -> None:
    """Work on a message and acknowledge it, as one."""
    with database.transaction():
        database.execute(ACK, message.lease)
        database.execute(WORK, (message.body,))


@dataclass
class Unreadable:
    """A message that the work fails on, once it is acknowledged."""

    lease: LeaseId
    body: bytes = b"no number"


def next_of(*consumers: Any) -> Any:
    """The next message, whichever of the consumers gets it: one that has lost a lease may get it back."""
    for _ in range(PATIENCE_S):
        for consumer in consumers:
            if (message := consumer.get(1 / len(consumers))) is not None:
                return message
    raise TimeoutError("no consumer was given a message")


def work_done(database: psycopg.Connection) -> list[int]:
    return [number for (number,) in database.execute("SELECT number FROM work ORDER BY number")]


def left(database: psycopg.Connection) -> int:
    """How many messages consumers have, or could get."""
    statement = "SELECT (SELECT count(*) FROM telesto.leases) + (SELECT count(*) FROM telesto.messages)"
    row = database.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def test_leaving_the_block_frees_credit_for_the_next_message(
    client: Any, queue_id: int, database: psycopg.Connection
) -> None:
    put_numbers(client, queue_id, 20)
    with client.queue(queue_id).consume(credit=1, ack_in_database=True) as consumer:
        for number in range(20):
            with consumer.get(PATIENCE_S) as leased:
                assert leased.body == b"%d" % number
                work_on(database, leased)
            assert not leased.held
    assert (work_done(database), left(database), consumer.lost) == (list(range(20)), 0, 0)


def test_single_messages_may_be_acknowledged_so(
    client: Any, queue_id: int, database: psycopg.Connection
) -> None:
    put_numbers(client, queue_id, 3)
    with client.queue(queue_id).consume(credit=1) as consumer:
        with consumer.get(PATIENCE_S) as leased:
            work_on(database, leased)
            leased.acked_in_database()
        leased = consumer.get(PATIENCE_S)
        work_on(database, leased)
        leased.acked_in_database()
        with consumer.get(PATIENCE_S):
            pass
    assert (work_done(database), left(database), consumer.lost) == ([0, 1], 0, 0)


def test_what_was_not_acknowledged_goes_back_and_that_is_logged(
    client: Any, queue_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    put_numbers(client, queue_id, 1)
    with client.queue(queue_id).consume(credit=1, ack_in_database=True) as consumer:
        with consumer.get(PATIENCE_S) as forgotten:
            pass
        again = consumer.get(PATIENCE_S)
        assert (again.body, again.message.attempt) == (b"0", 2)
        again.ack()
    assert f"messages {forgotten.message.message_id} of queue {queue_id} go back" in caplog.text


def test_a_transaction_that_fails_gives_the_message_back(
    client: Any, queue_id: int, database: psycopg.Connection
) -> None:
    put_numbers(client, queue_id, 1)
    with client.queue(queue_id).consume(credit=1, ack_in_database=True) as consumer:
        with pytest.raises(psycopg.errors.InvalidTextRepresentation), consumer.get(PATIENCE_S) as leased:
            work_on(database, Unreadable(leased.lease))
        with consumer.get(PATIENCE_S) as leased:
            assert leased.message.attempt == 2
            work_on(database, leased)
    assert (work_done(database), left(database)) == ([0], 0)


def test_a_lost_lease_undoes_the_work(
    client: Any, connected: Connect, queue_id: int, database: psycopg.Connection, real_service: Any
) -> None:
    client.queue(queue_id).update(lease=600)
    put_numbers(client, queue_id, 1)
    with client.queue(queue_id).consume(credit=1) as late:
        held = late.get(PATIENCE_S)
        with connected().queue(queue_id).consume(ack_in_database=True) as prompt:
            real_service.wait_for_consumers(2)
            real_service.execute("UPDATE telesto.leases SET deadline = clock_timestamp()")
            with next_of(prompt, late) as leased:
                work_on(database, leased)
            with pytest.raises(psycopg.Error, match="somebody else") as caught:
                work_on(database, held)
            assert caught.value.sqlstate == "TL027"
    assert (work_done(database), left(database)) == ([0], 0)


def test_a_transaction_that_is_open_when_the_block_is_left_decides_later(
    client: Any, queue_id: int, database: psycopg.Connection
) -> None:
    put_numbers(client, queue_id, 2)
    with client.queue(queue_id).consume(credit=1) as consumer, database.transaction():
        with consumer.get(PATIENCE_S) as leased:
            database.execute(ACK, leased.lease)
            database.execute(WORK, (leased.body,))
        # Nobody waits for the transaction.
        with consumer.get(PATIENCE_S) as leased:
            assert leased.body == b"1"
    assert (work_done(database), left(database)) == ([0], 0)


def test_what_was_committed_just_before_closing_is_done(
    client: Any, connected: Connect, queue_id: int, database: psycopg.Connection
) -> None:
    put_numbers(client, queue_id, 1)
    other = connected()
    with other.queue(queue_id).consume(ack_in_database=True).get(PATIENCE_S) as leased:
        work_on(database, leased)
    other.close()
    assert (work_done(database), left(database)) == ([0], 0)


def test_handlers_work_exactly_once_whatever_happens_to_connections(
    client: Any,
    connected: Connect,
    queue_id: int,
    database: psycopg.Connection,
    database_url: str,
    real_service: Any,
) -> None:
    count = 60
    done = threading.Event()
    refusals: list[str | None] = []
    client.queue(queue_id).update(max_attempts=1000)

    def handle(message: Any) -> None:
        with psycopg.connect(database_url) as own:
            if int(message.body) % 7 == 3 and message.attempt == 1:
                real_service.cut_connections()
            own.execute(ACK, message.lease)
            own.execute(WORK, (message.body,))
            if int(message.body) % 7 == 5:
                real_service.cut_connections()
        if len(work_done(database)) >= count:
            done.set()

    def failed(message: Any, error: BaseException) -> None:
        refusals.append(getattr(error, "sqlstate", repr(error)))

    lock = threading.Lock()

    def handle_alone(message: Any) -> None:
        with lock:
            handle(message)

    put_numbers(client, queue_id, count)
    worker = connected("worker")
    options = {"concurrency": 2, "ack_in_database": True, "on_error": failed}
    run = worker.queue(queue_id).run_consumer
    thread = threading.Thread(target=run, args=(handle_alone,), kwargs=options)
    thread.start()
    assert done.wait(PATIENCE_S), (work_done(database), refusals)
    worker.close()
    thread.join(PATIENCE_S)
    assert (work_done(database), left(database)) == (list(range(count)), 0)
    assert set(refusals) <= {"TL027"}
