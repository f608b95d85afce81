"""A database that was put back to an earlier state gets a new identity, once nobody works with it."""

import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from telesto.db import schema
from telesto.db.embedded.binaries import find_binaries
from telesto.db.install import migrate
from telesto.db.install.place import read_places
from telesto.db.restored import MiddlewaresAliveError, NotInstalledError, note_move, renew_incarnation

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


MOVES = {
    "another server": "UPDATE telesto.installation SET system_identifier = system_identifier + 1",
    "other tables": "UPDATE telesto.installation SET table_oid = (table_oid::bigint + 1)::oid",
}


@pytest.mark.parametrize("move", MOVES)
def test_a_database_that_is_elsewhere_is_refused_until_that_is_explained(
    database_url: str, connection: psycopg.Connection, move: str
) -> None:
    connection.execute(MOVES[move].encode())
    incarnation = scalar(connection, "SELECT telesto.get_incarnation()")
    for refused in (schema.require_current, schema.upgrade):
        with pytest.raises(schema.RestoredError, match="telesto db restored"):
            refused(database_url)
    assert not schema.current(database_url).usable
    assert any("telesto db restored" in problem.detail for problem in schema.check(database_url))

    assert note_move(database_url)
    assert schema.require_current(database_url).usable
    assert schema.check(database_url) == []
    assert scalar(connection, "SELECT telesto.get_incarnation()") == incarnation
    assert not note_move(database_url)

    connection.execute(MOVES[move].encode())
    renew_incarnation(database_url)
    assert schema.require_current(database_url).usable
    assert not schema.upgrade(database_url).changed
    assert scalar(connection, "SELECT telesto.get_incarnation()") != incarnation


def test_a_move_is_not_noted_while_a_middleware_is_at_work(
    database_url: str, connection: psycopg.Connection
) -> None:
    connection.execute(MOVES["another server"].encode())
    connection.execute(REGISTER)
    with pytest.raises(MiddlewaresAliveError):
        note_move(database_url)
    assert schema.current(database_url).elsewhere


def test_a_restored_dump_is_noticed(
    database_url: str, empty_database_url: str, connection: psycopg.Connection
) -> None:
    """Into another database of the same server, whose identifier tells nothing."""
    schema.upgrade(database_url)
    programs = find_binaries().directory
    dump = subprocess.run([programs / "pg_dump", database_url], check=True, capture_output=True, timeout=120)
    # A newer pg_dump sets what an older server does not know; anything else that fails shows below.
    subprocess.run(
        [programs / "psql", "--quiet", empty_database_url],
        input=dump.stdout,
        check=True,
        capture_output=True,
        timeout=120,
    )
    with pytest.raises(schema.RestoredError):
        schema.require_current(empty_database_url)
    assert schema.require_current(database_url).usable
    renew_incarnation(empty_database_url)
    schema.upgrade(empty_database_url)
    assert schema.require_current(empty_database_url).usable
    assert schema.check(empty_database_url) == []


def test_where_the_server_may_not_be_known_the_table_tells(
    database_url: str, connection: psycopg.Connection
) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        connection.execute("SET LOCAL ROLE telesto_middleware")
        places = read_places(connection)
        assert places is not None
        assert places.here.system_identifier is None
        assert not places.differ
        connection.execute("RESET ROLE")
        connection.execute(MOVES["other tables"].encode())
        connection.execute("SET LOCAL ROLE telesto_middleware")
        places = read_places(connection)
        assert places is not None
        assert places.differ


def test_a_middleware_may_know_the_server(connection: psycopg.Connection) -> None:
    connection.execute("SET ROLE telesto_middleware")
    places = read_places(connection)
    assert places is not None
    assert places.here == places.kept
    assert places.here.system_identifier


def test_a_database_of_an_earlier_revision_is_where_it_is(empty_database_url: str) -> None:
    """It has not written down where it is before the upgrade."""
    engine = migrate.engine_for(empty_database_url)
    with engine.begin() as old:
        migrate.migrate(old, "0014")
    assert not schema.current(empty_database_url).elsewhere
    schema.upgrade(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        places = read_places(connection)
    assert places is not None
    assert places.here == places.kept


def test_a_database_without_a_place_gets_a_new_identity_all_the_same(
    database_url: str, connection: psycopg.Connection
) -> None:
    connection.execute(
        "ALTER TABLE telesto.installation DROP COLUMN system_identifier, DROP COLUMN table_oid"
    )
    assert not note_move(database_url)
    renewal = renew_incarnation(database_url)
    assert renewal.before != renewal.incarnation


def test_a_database_without_telesto_is_told_from_one_with_it(empty_database_url: str) -> None:
    with pytest.raises(NotInstalledError):
        renew_incarnation(empty_database_url)
