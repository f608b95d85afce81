"""Connections to a fresh database, for the tests of the procedures.

`install` tests how a database is made and what runs it. `queues`, `consumers` and `topics` test the
procedures of these subjects, as middlewares and SQL users call them, `maintenance` what becomes of messages
with time, `users` tests users, and `plans` how the planner executes calls. What more than one folder uses
stands here.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from consumer_calls import Consumer, Consuming
from procedure_calls import Calls, Client
from telesto.db import schema
from topic_calls import TopicCalls

Open = Callable[[], Calls]


@pytest.fixture
def calls(database_url: str) -> Iterator[Calls]:
    with Calls(database_url) as calls:
        yield calls


@pytest.fixture
def client(calls: Calls) -> Client:
    return calls.register()


@pytest.fixture
def queue(calls: Calls, client: Client) -> int:
    return calls.create_queue(client)


@pytest.fixture
def consuming(calls: Calls) -> Consuming:
    """The middleware of the consumers."""
    return Consuming(calls)


@pytest.fixture
def consumer(consuming: Consuming, client: Client, queue: int) -> Consumer:
    return consuming.join(client, queue)


@pytest.fixture
def consistent(database_url: str) -> Iterator[None]:
    """Compare the tables with each other after the test, when its connections are closed."""
    yield
    assert schema.check(database_url) == []


@pytest.fixture
def other(database_url: str) -> Iterator[psycopg.Connection]:
    """Another connection, whose first statement opens a transaction that stays open."""
    with psycopg.connect(database_url) as connection:
        yield connection


@pytest.fixture
def open_calls(database_url: str) -> Iterator[Open]:
    """Give a way to open further connections, all closed after the test."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(Calls(database_url))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def topic_calls(database_url: str) -> Iterator[TopicCalls]:
    """A connection that also calls the procedures of topics."""
    with TopicCalls(database_url) as calls:
        yield calls


@pytest.fixture
def observer(database_url: str) -> Iterator[Calls]:
    """A connection that reads what others have touched."""
    with Calls(database_url) as observer:
        observer.connection.execute("SET stats_fetch_consistency = none")
        yield observer


@pytest.fixture
def no_vacuum(request: pytest.FixtureRequest, calls: Calls) -> None:
    """Keep autovacuum from tidying up what a test is about: the module's QUIET_TABLES."""
    for table in request.module.QUIET_TABLES:
        calls.connection.execute(f"ALTER TABLE telesto.{table} SET (autovacuum_enabled = false)".encode())


@pytest.fixture(params=["as it is", "analysed", "old snapshot"])
def view(request: pytest.FixtureRequest, calls: Calls, other: psycopg.Connection) -> Callable[[], None]:
    """Give what is done to the tables after they were filled; see SEEN_TABLES of the module."""
    if request.param == "old snapshot":
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        seen = ", ".join(f"telesto.{table}" for table in request.module.SEEN_TABLES)
        other.execute(f"SELECT count(*) FROM {seen}".encode())

    def look() -> None:
        if request.param == "analysed":
            calls.connection.execute("ANALYZE")

    return look
