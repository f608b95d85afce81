"""`telesto report`: what is refused before Spark is started."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from command_line import CommandLine


def fake_java(home: Path, version: str) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)


NOWHERE = ("--database-url", "postgresql://nobody@127.0.0.1:1/none", "--out", "report")
SERVICE = ("report", "service", *NOWHERE)
ARCHIVE = ("report", "archive", *NOWHERE)
either = pytest.mark.parametrize("command", [SERVICE, ARCHIVE], ids=["service", "archive"])


@either
def test_without_java_it_says_what_to_install(bare_telesto: CommandLine, command: tuple[str, ...]) -> None:
    bare_telesto.environment["JAVA_HOME"] = str(bare_telesto.home / "absent")
    assert "apt-get install default-jre-headless" in bare_telesto.error(2, *command)


def test_an_old_java_is_told_from_none(bare_telesto: CommandLine) -> None:
    fake_java(bare_telesto.home, "11.0.2")
    bare_telesto.environment["JAVA_HOME"] = str(bare_telesto.home)
    assert "is Java 11; Spark needs Java 17" in bare_telesto.error(2, *SERVICE)


def test_a_driver_that_is_not_there_is_said_so(bare_telesto: CommandLine) -> None:
    fake_java(bare_telesto.home, "17.0.1")
    bare_telesto.environment["JAVA_HOME"] = str(bare_telesto.home)
    said = bare_telesto.error(2, *SERVICE, "--driver-jar", "absent.jar")
    assert "there is no JDBC driver absent.jar" in said


@either
def test_what_is_no_setting_of_spark_is_said_so(bare_telesto: CommandLine, command: tuple[str, ...]) -> None:
    assert "write spark.name=value" in bare_telesto.error(2, *command, "--spark", "master=local")


class TestStability:
    def test_runs_that_are_not_there_are_said_so(self, bare_telesto: CommandLine) -> None:
        said = bare_telesto.error(2, "report", "stability", "nowhere", "--out", "report")
        assert "there is no directory nowhere" in said

    def test_what_is_no_experiment_is_said_so(self, bare_telesto: CommandLine) -> None:
        (bare_telesto.home / "folder").mkdir()
        said = bare_telesto.error(2, "report", "stability", "folder", "--out", "report")
        assert "folder is not the directory of an experiment" in said
        assert not (bare_telesto.home / "report").exists()

    def test_the_place_is_looked_at_first(self, bare_telesto: CommandLine) -> None:
        (bare_telesto.home / "report").mkdir()
        (bare_telesto.home / "report" / "precious").touch()
        said = bare_telesto.error(1, "report", "stability", "nowhere", "--out", "report", "--replace")
        assert "holds no report" in said


def test_nothing_but_a_report_is_replaced(bare_telesto: CommandLine) -> None:
    (bare_telesto.home / "report").mkdir()
    (bare_telesto.home / "report" / "precious").touch()
    assert "holds no report" in bare_telesto.error(1, *SERVICE, "--replace")
    assert (bare_telesto.home / "report" / "precious").exists()


@either
def test_a_database_that_is_not_there_is_said_so_before_spark_starts(
    bare_telesto: CommandLine, command: tuple[str, ...]
) -> None:
    fake_java(bare_telesto.home, "17.0.1")
    bare_telesto.environment["JAVA_HOME"] = str(bare_telesto.home)
    assert "cannot reach the database" in bare_telesto.error(3, *command)


@pytest.fixture
def started(bare_telesto: CommandLine) -> CommandLine:
    """The command line where Java seems to be there; a test that ran it would fail."""
    fake_java(bare_telesto.home, "17.0.1")
    bare_telesto.environment["JAVA_HOME"] = str(bare_telesto.home)
    return bare_telesto


@pytest.fixture
def stranger_url(database_url: str) -> Iterator[str]:
    """A login without any right."""
    name = f"stranger_{uuid.uuid4().hex}"
    parts = urlsplit(database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'hunter2-too'".encode())
        yield parts._replace(netloc=f"{name}:hunter2-too@{parts.hostname}:{parts.port}").geturl()
        connection.execute(f"DROP ROLE {name}".encode())


@pytest.mark.parametrize("command", ["service", "archive"])
def test_a_wrong_password_is_told_before_spark_starts(
    started: CommandLine, stranger_url: str, command: str
) -> None:
    wrong = stranger_url.replace(":hunter2-too@", ":hunter2-no@")
    try:
        psycopg.connect(wrong).close()
        pytest.skip("the server asks for no password")
    except psycopg.OperationalError:
        pass
    said = started.error(3, "report", command, "--database-url", wrong, "--out", "report")
    assert "password authentication failed" in said
    assert "hunter2" not in said
    assert not (started.home / "report").exists()


@pytest.mark.parametrize("command", ["service", "archive"])
def test_a_login_that_may_not_read_is_told_what_it_needs(
    started: CommandLine, stranger_url: str, command: str
) -> None:
    said = started.error(3, "report", command, "--database-url", stranger_url, "--out", "report")
    assert "may not read" in said
    assert "GRANT telesto_reader" in said
    assert not (started.home / "report").exists()


@pytest.mark.parametrize("command", ["service", "archive"])
def test_a_schema_of_an_older_release_is_told(started: CommandLine, database_url: str, command: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("ALTER TABLE telesto.history DROP COLUMN redelivered")
    said = started.error(3, "report", command, "--database-url", database_url, "--out", "report")
    assert "history.redelivered" in said
    assert "older release" in said


@pytest.mark.parametrize("command", ["service", "archive"])
def test_a_database_without_the_schema_is_told(
    started: CommandLine, empty_database_url: str, command: str
) -> None:
    said = started.error(3, "report", command, "--database-url", empty_database_url, "--out", "report")
    assert "no database of Telesto" in said


@pytest.mark.parametrize("kind", ["scalability", "factorial"])
def test_runs_that_are_not_there_are_said_so_before_spark_starts(
    bare_telesto: CommandLine, kind: str
) -> None:
    bare_telesto.environment["JAVA_HOME"] = str(bare_telesto.home / "absent")
    said = bare_telesto.error(2, "report", kind, "nowhere", "--out", "report")
    assert "there is no directory nowhere" in said


@pytest.mark.parametrize("kind", ["scalability", "factorial"])
def test_what_holds_no_experiment_is_said_so(bare_telesto: CommandLine, kind: str) -> None:
    (bare_telesto.home / "runs").mkdir()
    assert "is not the directory of an experiment" in bare_telesto.error(
        2, "report", kind, "runs", "--out", "report"
    )
    assert not (bare_telesto.home / "report").exists()
