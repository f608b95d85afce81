"""A database that was put back to an earlier state gets a new identity, once nobody works with it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from telesto.db import schema
from telesto.db.restored import MiddlewaresAliveError, NotInstalledError, renew_incarnation

REGISTER = "SELECT telesto.register_middleware('mq.example:7001', '1')"
AGE = "UPDATE telesto.middlewares SET heartbeat_at = clock_timestamp() + %s::interval"
INTEREST = "SELECT telesto.register_interest(middleware_id, ARRAY[1]) FROM telesto.middlewares"


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def scalar(connection: psycopg.Connection, statement: str) -> object:
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def test_the_identity_changes_and_nothing_else(database_url: str, connection: psycopg.Connection) -> None:
    kept = "SELECT to_jsonb(installation) - 'incarnation' FROM telesto.installation"
    before = scalar(connection, kept)
    renewal = renew_incarnation(database_url)
    assert renewal.before != renewal.incarnation
    assert scalar(connection, "SELECT telesto.get_incarnation()") == renewal.incarnation
    assert scalar(connection, kept) == before
    assert schema.current(database_url).up_to_date
    assert renew_incarnation(database_url).before == renewal.incarnation


@pytest.mark.parametrize("age", ["-11 s", "1 hour"])
def test_middlewares_of_the_backup_are_forgotten(
    database_url: str, connection: psycopg.Connection, age: str
) -> None:
    """Also when the clock is behind that of the time of the backup."""
    connection.execute(REGISTER)
    connection.execute(INTEREST)
    connection.execute(AGE, (age,))
    renew_incarnation(database_url)
    assert scalar(connection, "SELECT count(*) FROM telesto.middlewares") == 0
    assert scalar(connection, "SELECT count(*) FROM telesto.interests") == 0


def test_it_is_refused_while_a_middleware_gives_signs_of_life(
    database_url: str, connection: psycopg.Connection
) -> None:
    before = scalar(connection, "SELECT telesto.get_incarnation()")
    connection.execute(REGISTER)
    with pytest.raises(MiddlewaresAliveError, match=r"mq\.example:7001"):
        renew_incarnation(database_url)
    assert scalar(connection, "SELECT telesto.get_incarnation()") == before


def test_it_is_refused_while_a_middleware_is_connected(
    database_url: str, connection: psycopg.Connection
) -> None:
    before = scalar(connection, "SELECT telesto.get_incarnation()")
    with (
        psycopg.connect(database_url, application_name="telesto put"),
        pytest.raises(MiddlewaresAliveError, match="are connected"),
    ):
        renew_incarnation(database_url)
    assert scalar(connection, "SELECT telesto.get_incarnation()") == before


def test_a_database_without_telesto_is_told_from_one_with_it(empty_database_url: str) -> None:
    with pytest.raises(NotInstalledError):
        renew_incarnation(empty_database_url)
