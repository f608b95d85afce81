"""`telesto user quota|map|unmap`: what is set is in the database, shown with what is used."""

import psycopg
import pytest

from command_line import CommandLine


@pytest.fixture
def user(bare_telesto: CommandLine, database_url: str) -> CommandLine:
    """The command line on a database with two users."""
    bare_telesto.environment["TELESTO_DATABASE_URL"] = database_url
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO telesto.users (name) VALUES ('shop'), ('other')")
    return bare_telesto


def _quotas(user: CommandLine, *options: str) -> dict[str, tuple[object, object]]:
    rows = user.objects("user", "quota", "shop", *options)
    return {str(row["quota"]): (row["limit"], row["used"]) for row in rows}


def test_quotas_are_set_lifted_and_shown_with_what_is_used(user: CommandLine, database_url: str) -> None:
    unlimited = {
        "connections": (None, None),
        "clients": (None, 0),
        "queues": (None, 0),
        "consumers": (None, 0),
        "waiting-reads": (None, None),
        "puts-per-second": (None, None),
    }
    assert _quotas(user) == unlimited
    given = [part for name in unlimited for part in (f"--{name}", "7")]
    assert {name: limit for name, (limit, _) in _quotas(user, *given).items()} == dict.fromkeys(unlimited, 7)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE telesto.users SET administrator = true")
        connection.execute("SELECT telesto.declare_client('c'), telesto.declare_queue('q')")
        connection.execute(
            "UPDATE telesto.clients SET user_id = (SELECT user_id FROM telesto.users WHERE name = 'shop')"
        )
        connection.execute(
            "UPDATE telesto.queues SET user_id = (SELECT user_id FROM telesto.users WHERE name = 'shop')"
        )
    assert _quotas(user, "--clients", "none") == {
        name: (None if name == "clients" else 7, {"clients": 1, "queues": 1, "consumers": 0}.get(name))
        for name in unlimited
    }
    assert user.output("user", "quota", "shop").splitlines()[0] == b"quota\tlimit\tused\tcounted for"


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "2147483648", ""])
def test_what_is_no_quota_is_refused(user: CommandLine, value: str) -> None:
    assert "a number from 0 to 2147483647, or none" in user.error(
        2, "user", "quota", "shop", f"--connections={value}"
    )


def test_a_user_that_there_is_not_is_told(user: CommandLine) -> None:
    for command in (("quota", "nobody"), ("quota", "nobody", "--queues", "1"), ("map", "role", "nobody")):
        assert "there is no user 'nobody'" in user.error(1, "user", *command)
    assert "the role 'role' is no user" in user.error(1, "user", "unmap", "role")


def test_a_role_is_mapped_to_a_user_and_back(user: CommandLine, database_url: str) -> None:
    mapped = "SELECT s.role_name, u.name FROM telesto.sql_users s JOIN telesto.users u USING (user_id)"
    for name in ("other", "shop"):
        assert user.objects("user", "map", "pg_monitor", name) == [{"role": "pg_monitor", "user": name}]
        with psycopg.connect(database_url) as connection:
            assert connection.execute(mapped).fetchall() == [("pg_monitor", name)]
    assert user.objects("user", "unmap", "pg_monitor") == [{"role": "pg_monitor", "user": None}]
    with psycopg.connect(database_url) as connection:
        assert connection.execute(mapped).fetchall() == []
