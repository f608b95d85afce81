"""Connections to a fresh database, for the tests of the procedures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from procedure_calls import Calls
from topic_calls import TopicCalls

Open = Callable[[], Calls]


@pytest.fixture
def calls(database_url: str) -> Iterator[Calls]:
    with Calls(database_url) as calls:
        yield calls


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
