from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from command_line import CommandLine
from telesto.cli.admin import db
from telesto.db import schema
from telesto.db.install.roles import RolesReport


def test_upgrades_an_empty_database(bare_telesto: CommandLine, empty_database_url: str) -> None:
    database = ("--database-url", empty_database_url)
    before = bare_telesto.run("db", "current", *database)
    assert before.returncode == 6
    assert b"state\tempty: run telesto db upgrade\n" in before.stdout
    assert bare_telesto.run("db", "check", *database).returncode == 1

    upgraded = bare_telesto.objects("db", "upgrade", *database)[0]
    assert (upgraded["changed"], upgraded["revision_before"]) == (True, None)
    assert bare_telesto.output("db", "upgrade", *database).startswith(b"nothing to do")
    assert bare_telesto.objects("db", "current", *database)[0]["up_to_date"] is True
    assert bare_telesto.output("db", "check", *database) == b"no problems found\n"


def test_roles_that_could_not_be_made_are_told(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = schema.upgrade(database_url)
    roles = RolesReport(created=(), missing=("telesto_middleware",), granted=0, revoked=0)
    monkeypatch.setattr(schema, "upgrade", lambda _: replace(report, roles=roles))
    db.upgrade(database_url=database_url)
    assert "CREATE ROLE telesto_middleware;" in capsys.readouterr().err


def test_an_upgrade_that_only_sets_rights_tells_so(bare_telesto: CommandLine, database_url: str) -> None:
    upgrade = ("db", "upgrade", "--database-url", database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("REVOKE SELECT ON telesto.queues FROM telesto_reader")
        connection.execute("GRANT EXECUTE ON FUNCTION telesto.get_incarnation TO PUBLIC")
    assert bare_telesto.output(*upgrade).startswith(b"1 rights granted, 1 revoked; ")
    assert bare_telesto.output(*upgrade).startswith(b"nothing to do")
    with psycopg.connect(database_url) as connection:
        connection.execute("REVOKE SELECT ON telesto.queues FROM telesto_reader")
    told = bare_telesto.objects(*upgrade)[0]
    assert (told["changed"], told["granted"], told["revoked"]) == (False, 1, 0)


def test_url_may_come_from_the_environment(bare_telesto: CommandLine, database_url: str) -> None:
    bare_telesto.environment["TELESTO_DATABASE_URL"] = database_url
    assert b"state\tup to date\n" in bare_telesto.output("db", "current")


def test_problem_that_is_planted_is_found(bare_telesto: CommandLine, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("DROP FUNCTION telesto.queue_statistics")
    result = bare_telesto.run("db", "check", "--database-url", database_url)
    assert result.returncode == 1
    assert b"queue_statistics" in result.stdout


def test_a_restored_database_gets_a_new_identity(
    bare_telesto: CommandLine, database_url: str, empty_database_url: str
) -> None:
    restored = ("db", "restored", "--database-url", database_url)
    assert "--yes" in bare_telesto.error(2, *restored)
    told = bare_telesto.objects(*restored, "--yes")[0]
    assert told["incarnation"] != told["incarnation_before"]
    assert str(told["incarnation"]).encode() in bare_telesto.output(*restored, "--yes")
    with bare_telesto.started("serve", "--database-url", database_url, "--port", "0", "--json") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        assert "stop them first" in bare_telesto.error(5, *restored, "--yes")
        process.terminate()
        process.wait()
    bare_telesto.output(*restored, "--yes")
    none = ("db", "restored", "--database-url", empty_database_url, "--yes")
    assert "telesto db upgrade" in bare_telesto.error(6, *none)


def test_a_database_that_was_moved_keeps_its_identity(bare_telesto: CommandLine, database_url: str) -> None:
    url = ("--database-url", database_url)
    move = "UPDATE telesto.installation SET system_identifier = system_identifier + 1"
    with psycopg.connect(database_url, autocommit=True) as connection:
        before = connection.execute("SELECT telesto.get_incarnation()").fetchone()
        connection.execute(move)
        for command in (("serve", "--port", "0"), ("db", "upgrade")):
            assert "telesto db restored" in bare_telesto.error(6, *command, *url)
        assert bare_telesto.run("db", "current", *url).returncode == 6
        assert "--yes" in bare_telesto.error(2, "db", "restored", "--moved", *url)
        moved = ("db", "restored", "--moved", "--yes", *url)
        assert bare_telesto.output(*moved) == b"noted that the data is complete here\n"
        assert bare_telesto.objects(*moved) == [{"moved": False}]
        assert bare_telesto.output("db", "upgrade", *url).startswith(b"nothing to do")
        assert connection.execute("SELECT telesto.get_incarnation()").fetchone() == before


def test_works_on_a_data_directory_at_rest_and_in_use(bare_telesto: CommandLine, data_dir: Path) -> None:
    said = bare_telesto.error(2, "db", "current", "--data-dir", str(data_dir))
    assert "there is no data directory" in said
    with bare_telesto.started("serve", "--data-dir", str(data_dir), "--port", "0", "--json") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        assert bare_telesto.objects("db", "current", "--data-dir", str(data_dir))[0]["usable"] is True
        process.terminate()
        process.wait()
    assert bare_telesto.objects("db", "current", "--data-dir", str(data_dir))[0]["usable"] is True


def test_database_that_cannot_be_reached(bare_telesto: CommandLine) -> None:
    said = bare_telesto.error(3, "db", "current", "--database-url", "postgresql://me:hunter2@127.0.0.1:1/x")
    assert "postgresql://me@127.0.0.1:1/x" in said
    assert "hunter2" not in said


def test_url_that_is_none(bare_telesto: CommandLine) -> None:
    for url in ("localhost", "mysql://me:hunter2@localhost/x", "postgresql://localhost/x?no_such=1"):
        said = bare_telesto.error(2, "db", "upgrade", "--database-url", url)
        assert "hunter2" not in said
