"""Backups of the embedded database, as a user makes and restores them."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

import servers
from command_line import CommandLine
from faults.waiting import wait_until
from telesto.db import schema
from telesto.db.backup import BackupError, make_backup
from telesto.db.embedded.server import EmbeddedServer

SETTINGS = 'archive_mode = on\narchive_command = \'test ! -f "{0}/%f" && cp %p "{0}/%f"\'\n'


@dataclass(frozen=True)
class Original:
    """A running database with an archive, and a backup made between its rows 1 and 2."""

    url: str
    data_dir: Path
    backup: Path
    archive: Path
    between_2_and_3: datetime

    @property
    def place(self) -> Path:
        return self.data_dir.parent


def query(url: str, statement: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return [row[0] for row in cursor] if cursor.description else None


def keep(url: str, number: int) -> datetime:
    """Commits a row; the time afterwards."""
    query(url, f"INSERT INTO kept VALUES ({number})")
    return query(url, "SELECT clock_timestamp()")[0]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    with servers.scratch_directory() as scratch:
        data_dir, archive, backup = scratch / "data", scratch / "the archive 100%", scratch / "backup"
        archive.mkdir(mode=0o777)
        archive.chmod(0o777)
        with EmbeddedServer(data_dir):
            pass
        settings = SETTINGS.format(str(archive).replace("%", "%%"))
        (data_dir / "postgresql" / "user.conf").write_text(settings)
        with EmbeddedServer(data_dir) as server:
            schema.upgrade(server.url)
            query(server.url, "CREATE TABLE kept (number int)")
            keep(server.url, 1)
            command_line = CommandLine(tmp_path_factory.mktemp("home"))
            made = command_line.objects("backup", str(backup), "--data-dir", str(data_dir))[0]
            assert made["checked"] is True
            between = keep(server.url, 2)
            keep(server.url, 3)
            last = query(server.url, "SELECT pg_walfile_name(pg_switch_wal())")[0]
            wait_until((archive / last).exists)
            yield Original(server.url, data_dir, backup, archive, between)


@pytest.fixture
def restored_dir(original: Original) -> Iterator[Path]:
    with servers.scratch_directory() as scratch:
        yield scratch / "data"


def identity(url: str) -> str:
    return str(query(url, "SELECT incarnation FROM telesto.installation")[0])


def rows_of(data_dir: Path) -> tuple[list[int], str]:
    with EmbeddedServer(data_dir) as server:
        return query(server.url, "SELECT number FROM kept ORDER BY 1"), identity(server.url)


def test_what_was_there_is_restored_under_another_identity(
    bare_telesto: CommandLine, original: Original, restored_dir: Path
) -> None:
    told = bare_telesto.objects("restore", str(original.backup), "--data-dir", str(restored_dir))[0]
    rows, incarnation = rows_of(restored_dir)
    assert rows == [1]
    assert incarnation == told["incarnation"] != identity(original.url)
    again = bare_telesto.error(1, "restore", str(original.backup), "--data-dir", str(restored_dir))
    assert "has a database" in again
    assert rows_of(restored_dir)[0] == [1]


def test_the_archived_log_is_recovered_too(
    bare_telesto: CommandLine, original: Original, restored_dir: Path
) -> None:
    places = (str(original.backup), "--data-dir", str(restored_dir), "--archive", str(original.archive))
    assert bare_telesto.objects("restore", *places)[0]["archiving_ended"] is True
    before = set(original.archive.iterdir())
    rows, incarnation = rows_of(restored_dir)
    assert rows == [1, 2, 3]
    assert set(original.archive.iterdir()) == before
    assert incarnation != identity(original.url)


def test_it_is_recovered_to_a_moment(
    bare_telesto: CommandLine, original: Original, restored_dir: Path
) -> None:
    until = ("--until", original.between_2_and_3.astimezone(UTC).isoformat().replace("+00:00", "Z"))
    places = (str(original.backup), "--data-dir", str(restored_dir), "--archive", str(original.archive))
    result = bare_telesto.run("restore", *places, *until)
    assert result.returncode == 0
    assert b"ALTER SYSTEM RESET archive_mode" in result.stderr
    assert rows_of(restored_dir)[0] == [1, 2]


def test_what_cannot_be_recovered_leaves_nothing(
    bare_telesto: CommandLine, original: Original, restored_dir: Path
) -> None:
    places = (str(original.backup), "--data-dir", str(restored_dir))
    for moment, why in {
        "2999-01-01T00:00:00Z": r"the archive does not reach to the moment of --until: its last change is",
        "2000-01-01T00:00:00Z": r"is before the backup was complete \(2",
    }.items():
        until = ("--archive", str(original.archive), "--until", moment)
        error = bare_telesto.error(1, "restore", *places, *until)
        assert re.search(why, error)
        assert "FATAL" not in error
    bare_telesto.objects("restore", *places)
    assert rows_of(restored_dir)[0] == [1]


def test_a_damaged_backup_is_refused(
    bare_telesto: CommandLine, original: Original, restored_dir: Path
) -> None:
    damaged = restored_dir.parent / "damaged"
    shutil.copytree(original.backup, damaged)
    biggest = max((damaged / "postgresql" / "base").rglob("[0-9]*"), key=lambda path: path.stat().st_size)
    with biggest.open("r+b") as file:
        file.seek(5_000)
        file.write(b"x")
    said = bare_telesto.error(1, "restore", str(damaged), "--data-dir", str(restored_dir))
    assert "is damaged: base/" in said
    biggest.unlink()
    assert "is damaged" in bare_telesto.error(1, "restore", str(damaged), "--data-dir", str(restored_dir))
    assert not restored_dir.exists()


@pytest.mark.parametrize("name", ["password", "postgresql/postgresql.auto.conf"])
def test_a_backup_with_a_symbolic_link_is_refused(
    bare_telesto: CommandLine, original: Original, restored_dir: Path, name: str
) -> None:
    """Restoring it would read or write a file elsewhere, with the rights of root."""
    linked, elsewhere = restored_dir.with_name("linked"), restored_dir.with_name("elsewhere")
    shutil.copytree(original.backup, linked)
    shutil.copyfile(linked / name, elsewhere)
    (linked / name).unlink()
    (linked / name).symlink_to(elsewhere)
    told = bare_telesto.error(1, "restore", str(linked), "--data-dir", str(restored_dir))
    assert f"{name} is a symbolic link" in told
    assert not restored_dir.exists()


def test_a_check_does_not_use_a_directory_that_somebody_made(original: Original) -> None:
    """Its owner would own the copy, with all messages in it."""
    with servers.scratch_directory() as scratch:
        target = scratch / "backup"
        check = target.with_name(f"{target.name}.new-{os.getpid()}.check")
        check.mkdir(mode=0o777)
        with pytest.raises(BackupError, match="File exists"):
            make_backup(original.url, target)
        assert list(scratch.iterdir()) == [check]
        assert not list(check.iterdir())


def test_a_check_leaves_the_backup_and_the_archive_as_they_are(
    bare_telesto: CommandLine, original: Original, restored_dir: Path
) -> None:
    before = {path.name for path in original.archive.iterdir()}
    target = restored_dir.parent / "another"
    bare_telesto.output("backup", str(target), "--data-dir", str(original.data_dir))
    assert sorted(path.name for path in target.iterdir()) == ["backup.json", "password", "postgresql"]
    assert (target / "postgresql" / "backup_label").exists()
    assert [path.name for path in restored_dir.parent.iterdir()] == ["another"]
    # Only the original has archived: the log up to the backup, and the mark of the backup itself.
    wait_until(lambda: any(path.suffix == ".backup" for path in original.archive.iterdir()))
    timelines = {path.name[:8] for path in original.archive.iterdir() if path.name not in before}
    assert timelines == {"00000001"}
    assert query(original.url, "SELECT failed_count FROM pg_stat_archiver") == [0]


def test_a_backup_of_a_stopped_service_starts_its_postgresql(
    bare_telesto: CommandLine, original: Original, restored_dir: Path
) -> None:
    bare_telesto.objects("restore", str(original.backup), "--data-dir", str(restored_dir))
    target = restored_dir.parent / "another"
    made = bare_telesto.objects("backup", str(target), "--data-dir", str(restored_dir), "--no-check")[0]
    assert made["checked"] is False
    assert json.loads((target / "backup.json").read_text())["revision"] == made["revision"] is not None
    assert rows_of(restored_dir)[0] == [1]


def test_bad_uses_are_explained(
    bare_telesto: CommandLine, original: Original, restored_dir: Path, tmp_path: Path
) -> None:
    data_dir = ("--data-dir", str(original.data_dir))
    assert "exists" in bare_telesto.error(1, "backup", str(original.backup), *data_dir)
    assert "no data directory" in bare_telesto.error(2, "backup", "new", "--data-dir", "missing")
    assert "is no backup" in bare_telesto.error(1, "restore", str(tmp_path), "--data-dir", str(restored_dir))
    until = ("--until", "2026-01-01T00:00:00Z")
    assert "--until needs --archive" in bare_telesto.error(2, "restore", str(original.backup), *until)
    missing = ("--archive", str(tmp_path / "missing"))
    said = bare_telesto.error(1, "restore", str(original.backup), "--data-dir", str(restored_dir), *missing)
    assert "cannot be read" in said
    bare_telesto.environment["TELESTO_DATABASE_URL"] = "postgresql://elsewhere.example/telesto"
    for command in ("backup", "restore"):
        assert "pg_basebackup" in bare_telesto.error(2, command, str(original.backup))
