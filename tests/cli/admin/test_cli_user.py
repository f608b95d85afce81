"""`telesto user`, and commands that log in."""

import os
import pty
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from command_line import COMMAND, TIMEOUT_S, CommandLine
from telesto.middleware.security.login import read_verifier

PASSWORD = "hunter2 horse, battery"


@pytest.fixture
def users(bare_telesto: CommandLine, database_url: str) -> CommandLine:
    """The command line, with a database of the test's own."""
    bare_telesto.environment["TELESTO_DATABASE_URL"] = database_url
    return bare_telesto


@pytest.fixture
def database(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def add(users: CommandLine, name: str, *options: str) -> None:
    result = users.run("user", "add", name, "--password-file", "-", *options, stdin=PASSWORD.encode() + b"\n")
    assert result.returncode == 0, result
    assert result.stdout == f"user {name}: added\n".encode()


def test_the_life_of_a_user(users: CommandLine, database: psycopg.Connection) -> None:
    assert users.objects("user", "list") == []
    add(users, "shop", "--put", "orders-*", "--put", "x?", "--get", "orders-*", "--clients", "shop-*")
    (shown,) = users.objects("user", "show", "shop")
    assert shown.pop("created_at")
    assert shown == {
        "name": "shop",
        "password": True,
        "enabled": True,
        "administrator": False,
        "monitor": False,
        "configure": [],
        "put": ["orders-*", "x?"],
        "get": ["orders-*"],
        "admin": [],
        "clients": ["shop-*"],
        "sql_roles": [],
    }
    row = database.execute("SELECT verifier FROM telesto.users").fetchone()
    assert row is not None
    assert read_verifier(row[0]) is not None
    assert PASSWORD not in row[0]

    users.output("user", "allow", "shop", "--put", "y", "--put", "x?", "--monitor", "--administrator")
    users.output("user", "revoke", "shop", "--put", "orders-*", "--get", "orders-*", "--administrator")
    (shown,) = users.objects("user", "list")
    assert (shown["put"], shown["get"]) == (["x?", "y"], [])
    assert (shown["monitor"], shown["administrator"]) == (True, False)

    assert users.output("user", "disable", "shop") == b"user shop: disabled\n"
    assert users.objects("user", "show", "shop")[0]["enabled"] is False
    users.output("user", "enable", "shop")
    assert users.objects("user", "show", "shop")[0]["enabled"] is True
    header, line = users.output("user", "list").decode().splitlines()
    assert header.split("\t") == ["name", "login", "may", "SQL roles"]
    assert line.split("\t") == ["shop", "password", "monitor; put x? y; clients shop-*", ""]

    said = users.error(1, "user", "delete", "shop", "--yes")
    assert "last user" in said
    assert "--last" in said
    add(users, "ops", "--administrator")
    assert users.output("user", "delete", "shop", "--yes") == b"user shop: deleted\n"
    users.output("user", "delete", "ops", "--yes", "--last")
    assert users.objects("user", "list") == []


def test_the_first_user_is_told_of(users: CommandLine) -> None:
    first = users.run("user", "add", "shop", "--no-password")
    assert b"everybody has to log in" in first.stderr
    assert b"No user is an administrator" in first.stderr
    assert users.run("user", "add", "ops", "--no-password", "--administrator").stderr == b""


def test_a_password_by_file_made_up_or_none(users: CommandLine, database: psycopg.Connection) -> None:
    def verifier() -> str | None:
        row = database.execute("SELECT verifier FROM telesto.users WHERE name = 'shop'").fetchone()
        assert row is not None
        return row[0]

    add(users, "shop")
    seen = {verifier()}
    (users.home / "password").write_text("another\n")
    assert users.output("user", "passwd", "shop", "--password-file", "password") == (
        b"user shop: password changed\n"
    )
    seen.add(verifier())
    made_up = users.output("user", "passwd", "shop", "--generate").decode().strip()
    assert len(made_up) >= 24
    seen.add(verifier())
    users.output("user", "passwd", "shop", "--no-password")
    seen.add(verifier())
    assert len(seen) == 4
    assert None in seen


def test_a_password_is_asked_for_on_a_terminal(users: CommandLine) -> None:
    """Twice, and not shown; without a terminal the command says what to do."""
    assert "--password-file" in users.error(2, "user", "add", "shop")
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "user", "add", "shop"],
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        env=users.environment,
        cwd=users.home,
        start_new_session=True,
    )
    os.close(its_end)
    said = b""
    for question in (b"Password of shop: ", b"confirmation: "):
        while question not in said:
            said += os.read(terminal, 4096)
        os.write(terminal, PASSWORD.encode() + b"\n")
    try:
        while data := os.read(terminal, 4096):
            said += data
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    assert process.wait(TIMEOUT_S) == 0
    assert PASSWORD.encode() not in said
    assert b"user shop: added" in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("add", "", "--no-password"), 2, "1 to 255"),
        (("add", "a\u202eb", "--no-password"), 2, "invisible"),
        (("add", "\u2168", "--no-password"), 2, "'IX'"),
        (("add", "a", "--no-password", "--generate"), 2, "exclude"),
        (("add", "a", "--password-file", "nowhere"), 2, "cannot read"),
        (("add", "a", "--password-file", "/dev/null"), 2, "the file '/dev/null' is empty"),
        (("add", "a", "--password-file", "/dev/zero"), 2, "more than 65536 bytes"),
        (("add", "a", "--password-file", "-"), 2, "standard input is empty"),
        (("add", "a", "--no-password", "--put", ""), 2, "1 to 255 characters"),
        (("add", "a", "--no-password", "--put", "a\nb"), 2, "1 to 255 characters"),
        (("add", "a", "--no-password", *[f"--put=x{number}" for number in range(65)]), 2, "64 patterns"),
        (("allow", "a"), 2, "name a right"),
        (("allow", "nobody", "--put", "*"), 1, "there is no user 'nobody'"),
        (("show", "nobody"), 1, "there is no user 'nobody'"),
        (("passwd", "nobody", "--no-password"), 1, "there is no user 'nobody'"),
        (("disable", "nobody"), 1, "there is no user 'nobody'"),
        (("delete", "nobody", "--yes"), 1, "there is no user 'nobody'"),
    ],
)
def test_what_is_refused(users: CommandLine, arguments: tuple[str, ...], code: int, words: str) -> None:
    assert words in users.error(code, "user", *arguments)


def test_a_password_of_two_lines_is_refused_and_not_shown(users: CommandLine) -> None:
    for content in (b"hunter2\nhorse\n", b"hunter2\n\n", b"\n", b"\r\n"):
        said = users.error(2, "user", "add", "shop", "--password-file", "-", stdin=content)
        assert "standard input has several lines" in said or "standard input is empty" in said
        assert "hunter2" not in said
    add(users, "shop")  # with a line end
    (users.home / "password-file").write_bytes(b"hunter2\r\n")
    users.output("user", "passwd", "shop", "--password-file", "password-file")


def test_nothing_to_do_is_told(users: CommandLine) -> None:
    add(users, "shop", "--put", "orders-*", "--monitor")
    for command, words in (
        (("allow", "shop", "--put", "orders-*", "--monitor"), "user shop may do that already"),
        (("enable", "shop"), "user shop is enabled already"),
    ):
        assert users.output("user", *command).decode() == f"nothing to do: {words}\n"
        assert users.objects("user", *command)[0]["changed"] is False
    users.output("user", "disable", "shop")
    assert users.output("user", "disable", "shop") == b"nothing to do: user shop is disabled already\n"
    assert users.objects("user", "allow", "shop", "--put", "orders-*", "--put", "more") == [
        {"name": "shop", "done": "allowed", "changed": True}
    ]
    assert users.objects("user", "show", "shop")[0]["put"] == ["orders-*", "more"]


def test_what_was_never_allowed_cannot_be_revoked(users: CommandLine) -> None:
    add(users, "shop", "--put", "orders-*", "--put", "it's")
    said = users.error(1, "user", "revoke", "shop", "--put", "orders-1", "--get", "x", "--administrator")
    assert said == (
        "telesto: there is nothing to revoke: user shop has no --administrator; "
        "user shop has no --put orders-1; it has --put 'orders-*' 'it'\"'\"'s'; "
        "user shop has no --get x; it has no --get at all\n"
    )
    told = users.run("user", "revoke", "shop", "--put", "orders-1", "--put", "orders-*")
    assert (told.returncode, told.stdout) == (0, b"user shop: revoked\n")
    assert b"user shop has no --put orders-1" in told.stderr
    assert users.objects("user", "show", "shop")[0]["put"] == ["it's"]


def test_a_user_that_is_there_is_told_before_the_password_is_asked_for(users: CommandLine) -> None:
    add(users, "shop")
    for arguments, words in (
        (("add", "shop"), "there is a user 'shop' already"),
        (("passwd", "nobody"), "there is no user 'nobody'"),
    ):
        terminal, its_end = pty.openpty()
        result = subprocess.run(
            [*COMMAND, "user", *arguments],
            stdin=its_end,
            capture_output=True,
            env=users.environment,
            cwd=users.home,
            timeout=TIMEOUT_S,
            check=False,
        )
        os.close(its_end)
        os.close(terminal)
        assert result.returncode == 1
        assert words in result.stderr.decode()


def test_a_name_is_one_users(users: CommandLine) -> None:
    add(users, "shop")
    assert "there is a user 'shop' already" in users.error(1, "user", "add", "shop", "--no-password")


def test_commands_log_in_and_the_door_closes(users: CommandLine, database_url: str, tmp_path: Path) -> None:
    """By the URL and by the environment; `telesto ping` too. Without a user it says what to do."""
    serve = ("serve", "--database-url", database_url, "--port", "0", "--json")
    with users.started(*serve, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().split('"url": "')[1].split('"')[0]
        users.environment["TELESTO_URL"] = url
        users.output("ping")
        add(users, "ops", "--administrator")
        said = users.error(77, "ping")
        assert "telesto://USER:PASSWORD@host" in said
        queue = f"queue-{uuid.uuid4().hex[:8]}"
        users.environment["TELESTO_USER"] = "ops"
        users.environment["TELESTO_PASSWORD"] = PASSWORD
        users.output("ping")
        users.output("queue", "create", queue)
        users.environment["TELESTO_PASSWORD"] = "hunter2 wrong"
        for command in (("ping",), ("queue", "list"), ("put", queue, "x")):
            said = users.error(77, *command)
            assert "refuses the login of 'ops'" in said
            assert "hunter2" not in said
        del users.environment["TELESTO_USER"], users.environment["TELESTO_PASSWORD"]
        users.environment["TELESTO_URL"] = url.replace("://", "://ops:hunter2%20horse%2C%20battery@")
        users.output("put", queue, "x")
        assert b"hunter2" not in users.output("ping", "--count", "1") + users.output("ping", "--json")
        users.output("user", "delete", "ops", "--yes", "--last")
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def test_an_address_that_others_reach(users: CommandLine, database_url: str) -> None:
    serve = ("serve", "--database-url", database_url, "--port", "0", "--host", "0.0.0.0", "--json")
    for processes in ("1", "2"):
        said = users.error(2, *serve, "--processes", processes)
        assert "--tls-certificate" in said
        assert "--insecure" in said
        with users.started(*serve, "--insecure", "--processes", processes) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"{")
            process.terminate()
            _, told = process.communicate(timeout=TIMEOUT_S)
            assert b"insecure" in told


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_list_fits_a_terminal(users: CommandLine, database: psycopg.Connection, columns: int) -> None:
    """With long names, long and many patterns, and a user of each kind."""
    for number in range(30):
        name = f"user-{number}" if number % 7 else f"warehouse-department-of-the-north-{number}"
        database.execute(
            "INSERT INTO telesto.users (name, put, clients, monitor, enabled) VALUES (%s, %s, %s, %s, %s)",
            (name, ["a-long-pattern-*" * 3] * (number % 4), ["*"], number % 9 == 0, number % 8 != 0),
        )
    users.environment["COLUMNS"] = str(columns)
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "user", "list"],
        stdin=subprocess.DEVNULL,
        stdout=its_end,
        stderr=subprocess.STDOUT,
        env=users.environment,
        cwd=users.home,
    )
    os.close(its_end)
    shown = b""
    try:
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    assert process.wait(TIMEOUT_S) == 0
    header, *lines = shown.decode().splitlines()
    assert header.split() == ["name", "login", "may", "SQL", "roles"]
    assert len(lines) == 30
    assert max(map(len, lines)) <= columns
    assert sum(line.startswith("warehouse-") for line in lines) == 5
    assert sum("monitor" in line for line in lines) == 4
    assert sum("disabled" in line for line in lines) == 4
