"""Connections to a fresh database, for the tests of the procedures."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from procedure_calls import Calls


@pytest.fixture
def calls(database_url: str) -> Iterator[Calls]:
    with Calls(database_url) as calls:
        yield calls


@pytest.fixture
def other(database_url: str) -> Iterator[psycopg.Connection]:
    """Another connection, whose first statement opens a transaction that stays open."""
    with psycopg.connect(database_url) as connection:
        yield connection
