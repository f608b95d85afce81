"""What keeps `telesto serve` from starting: each cause has its words and its exit status."""

import contextlib
import socket
import socketserver
import threading
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from command_line import CommandLine
from telesto.db.install.url import parameters_of

# Nobody waits for it in these tests: what is told at once is told long before.
LONG_S = "600"
SHORT_S = "0.3"


def _execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _with_login(url: str, login: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}").geturl()


@pytest.fixture
def user(postgres_url: str) -> Iterator[str]:
    """A login with no rights, of which the password is `hunter2`."""
    name = f"telesto_test_{uuid.uuid4().hex}"
    _execute(postgres_url, f"CREATE ROLE {name} LOGIN PASSWORD 'hunter2'")
    yield name
    _execute(postgres_url, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def _refusal(telesto: CommandLine, url: str, code: int, *options: str) -> str:
    """The one line that is said at once, without waiting for a database that will not change its mind."""
    telesto.environment["TELESTO_DATABASE_START_S"] = LONG_S
    said = telesto.error(code, "serve", "--database-url", url, "--port", "0", *options)
    assert "keeps trying" not in said
    assert "hunter2" not in said
    return said


def _given_up(telesto: CommandLine, url: str, *options: str) -> str:
    """The reason that is said at first, and again when the time is over."""
    telesto.environment["TELESTO_DATABASE_START_S"] = SHORT_S
    result = telesto.run("serve", "--database-url", url, "--port", "0", *options)
    assert result.returncode == 3, result
    first, last = result.stderr.decode().splitlines()
    assert first == f"{last}; telesto keeps trying for {SHORT_S} s"
    return last


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_wrong_password_is_told_at_once(
    bare_telesto: CommandLine, database_url: str, user: str, processes: str
) -> None:
    url = _with_login(database_url, f"{user}:not-hunter2")
    said = _refusal(bare_telesto, url, 3, "--processes", processes)
    assert f'password authentication failed for user "{user}" (28P01)' in said


def test_a_user_that_there_is_not_is_told_at_once(bare_telesto: CommandLine, database_url: str) -> None:
    assert "nobody_at_all" in _refusal(bare_telesto, _with_login(database_url, "nobody_at_all:x"), 3)


def test_a_database_that_there_is_not_is_told_at_once(bare_telesto: CommandLine, database_url: str) -> None:
    said = _refusal(bare_telesto, urlsplit(database_url)._replace(path="/no_such").geturl(), 3)
    assert 'database "no_such" does not exist (3D000)' in said


def test_a_user_who_may_not_connect_is_told_at_once(
    bare_telesto: CommandLine, database_url: str, user: str
) -> None:
    name = parameters_of(database_url)["dbname"]
    _execute(database_url, f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
    said = _refusal(bare_telesto, _with_login(database_url, f"{user}:hunter2"), 3)
    assert "permission denied for database" in said


def test_a_server_without_the_encryption_that_is_asked_for_is_told_at_once(
    bare_telesto: CommandLine, database_url: str
) -> None:
    assert "SSL" in _refusal(bare_telesto, f"{database_url}?sslmode=require", 3)


@pytest.mark.parametrize("role", [None, "telesto_reader", "telesto_application"])
def test_a_user_without_a_middlewares_rights_is_told_what_to_grant(
    bare_telesto: CommandLine, database_url: str, user: str, role: str | None
) -> None:
    if role:
        _execute(database_url, f"GRANT {role} TO {user}")
    said = _refusal(bare_telesto, _with_login(database_url, f"{user}:hunter2"), 6)
    assert f"GRANT telesto_middleware TO {user}" in said


def test_a_middlewares_rights_suffice(bare_telesto: CommandLine, database_url: str, user: str) -> None:
    _execute(database_url, f"GRANT telesto_middleware TO {user}")
    url = _with_login(database_url, f"{user}:hunter2")
    with bare_telesto.started("serve", "--database-url", url, "--port", "0", "--json") as process:
        assert process.stdout is not None
        assert process.stdout.readline()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_database_that_takes_no_writes_says_so(
    bare_telesto: CommandLine, database_url: str, processes: str
) -> None:
    """It is waited for, for a standby may be promoted."""
    name = parameters_of(database_url)["dbname"]
    _execute(database_url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    said = _given_up(bare_telesto, database_url, "--processes", processes)
    assert "takes no writes: default_transaction_read_only is on" in said
    said = bare_telesto.error(3, "db", "restored", "--yes", "--database-url", database_url)
    assert "takes no writes" in said


def test_one_of_two_servers_that_rejects_is_not_the_end(bare_telesto: CommandLine, database_url: str) -> None:
    """The other one, which cannot be reached yet, may take what this one does not."""
    parameters = parameters_of(database_url)
    hosts = f"127.0.0.1:1,{parameters['host']}:{parameters['port']}"
    said = _given_up(bare_telesto, f"postgresql://nobody_at_all:x@{hosts}/{parameters['dbname']}")
    assert "127.0.0.1:1: Connection refused; " in said
    assert "28P01" in said


def test_a_host_that_is_not_known_is_waited_for(bare_telesto: CommandLine) -> None:
    """A container's name is known when it starts."""
    said = _given_up(bare_telesto, "postgresql://no-such-host.invalid/telesto")
    assert said.endswith(": Name or service not known")


@pytest.mark.parametrize(
    ("sqlstate", "text"),
    [("53300", "sorry, too many clients already"), ("57P03", "the database system is starting up")],
)
def test_a_server_that_cannot_serve_yet_is_waited_for(
    bare_telesto: CommandLine, sqlstate: str, text: str
) -> None:
    with _answering(sqlstate, text) as url:
        assert _given_up(bare_telesto, url).endswith(f": {text}")


@pytest.mark.parametrize(
    "command", [("serve", "--port", "0"), ("db", "upgrade"), ("serve", "--upgrade", "--port", "0")]
)
def test_a_database_that_is_not_utf8_is_refused(
    bare_telesto: CommandLine, postgres_url: str, command: tuple[str, ...]
) -> None:
    name = f"telesto_test_{uuid.uuid4().hex}"
    how = "TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'"
    _execute(postgres_url, f"CREATE DATABASE {name} {how}")
    try:
        url = urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        said = bare_telesto.error(6, *command, "--database-url", url)
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT to_regnamespace('telesto')").fetchone()
    finally:
        _execute(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")
    assert "LATIN1" in said
    assert "ENCODING 'UTF8' TEMPLATE template0" in said
    assert row == (None,)


@contextlib.contextmanager
def _answering(sqlstate: str, text: str) -> Iterator[str]:
    """A server that answers each attempt to connect with an error."""
    fields = f"SFATAL\0VFATAL\0C{sqlstate}\0M{text}\0\0".encode()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connection: socket.socket = self.request
            while connection.recv(4)[:4] == b"\0\0\0\x08":  # it asks for encryption
                connection.recv(4)
                connection.sendall(b"N")
            connection.recv(4096)
            connection.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"postgresql://127.0.0.1:{server.server_address[1]}/telesto"
        finally:
            server.shutdown()
