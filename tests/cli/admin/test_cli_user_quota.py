"""`telesto user quota|map|unmap`: what is set is in the database, shown with what is used."""

import uuid
from collections.abc import Iterator

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
        "topics": (None, 0),
        "stored-messages": (None, None),
        "stored-bytes": (None, None),
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
        connection.execute(
            "INSERT INTO telesto.user_usage SELECT user_id, 3, 40, now() FROM telesto.users"
            " WHERE name = 'shop'"
        )
    used = {"clients": 1, "queues": 1, "consumers": 0, "topics": 0, "stored-messages": 3, "stored-bytes": 40}
    assert _quotas(user, "--clients", "none") == {
        name: (None if name == "clients" else 7, used.get(name)) for name in unlimited
    }
    assert user.output("user", "quota", "shop").splitlines()[0] == b"quota\tlimit\tused\tcounted for"


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "2147483648", ""])
def test_what_is_no_quota_is_refused(user: CommandLine, value: str) -> None:
    assert "a number from 0 to 2147483647, or none" in user.error(
        2, "user", "quota", "shop", f"--connections={value}"
    )


def test_a_user_that_there_is_not_is_told(user: CommandLine) -> None:
    for command in (("quota", "nobody"), ("quota", "nobody", "--queues", "1")):
        assert "there is no user 'nobody'" in user.error(1, "user", *command)
    assert "the role 'role' is no user" in user.error(1, "user", "unmap", "role")


@pytest.fixture
def roles(database_url: str) -> Iterator[list[str]]:
    """Two roles that log in and one that does not, which all databases of the server have."""
    stem = f"shop_{uuid.uuid4().hex[:8]}"
    names = [f"{stem}_app", f"{stem}_report", f"{stem}_group"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        for name in names:
            login = "NOLOGIN" if name.endswith("group") else "LOGIN"
            connection.execute(f"CREATE ROLE {name} {login}".encode())
        yield names
        for name in names:
            connection.execute(f"DROP ROLE {name}".encode())


def test_a_role_is_mapped_to_a_user_and_back(user: CommandLine, roles: list[str]) -> None:
    app, report, _ = roles
    assert user.objects("user", "map", app, "other") == [{"role": app, "user": "other", "before": None}]
    assert user.objects("user", "map", app, "shop") == [{"role": app, "user": "shop", "before": "other"}]
    assert user.output("user", "map", app, "shop").decode() == (
        f"nothing to do: role {app} is user shop already\n"
    )
    user.output("user", "map", report, "shop")
    shown = {str(row["name"]): row["sql_roles"] for row in user.objects("user", "list")}
    assert shown == {"other": [], "shop": [app, report]}
    assert user.objects("user", "show", "shop")[0]["sql_roles"] == [app, report]
    assert f"SQL roles\t{app} {report}" in user.output("user", "show", "shop").decode()
    assert (
        user.output("user", "map", app, "other").decode()
        == f"role {app} is user other now; it was user shop\n"
    )
    assert user.objects("user", "unmap", app) == [{"role": app, "user": None}]
    assert f"did you mean {report}?" in user.error(1, "user", "unmap", f"{report}s")


def test_a_mistyped_role_is_told_with_near_ones(user: CommandLine, roles: list[str]) -> None:
    app, _, group = roles
    said = user.error(1, "user", "map", app.replace("_app", "_ap"), "shop")
    assert "has no role" in said
    assert app in said.partition("did you mean")[2]
    said = user.error(1, "user", "map", 'quite"different', "shop")
    assert """has no role 'quite"different'; make it first: CREATE ROLE "quite""different" LOGIN""" in said
    assert user.objects("user", "show", "shop")[0]["sql_roles"] == []
    told = user.run("user", "map", group, "shop")
    assert told.returncode == 0
    assert b"cannot log in" in told.stderr
    assert "there is no user 'nobody'" in user.error(1, "user", "map", app, "nobody")
