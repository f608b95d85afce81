"""Backups of the embedded PostgreSQL: base backups, each checked by starting a copy of it.

A backup is a directory with the cluster in ``postgresql/``, as pg_basebackup wrote it, the superuser's
``password``, and ``backup.json``, which says what it is. A restored database is in the past, so it gets a new
identity before any middleware can see it (see `telesto.db.restored`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from telesto.db import schema
from telesto.db.embedded.account import account_for
from telesto.db.embedded.binaries import clean_environment, find_binaries
from telesto.db.embedded.cluster import DataDirectory, last_lines
from telesto.db.embedded.errors import DataDirectoryError, EmbeddedServerError
from telesto.db.embedded.server import EmbeddedServer, StartFailedError
from telesto.db.embedded.settings import USER_FILE
from telesto.db.restored import Renewal, renew_incarnation
from telesto.version import VERSION

DESCRIPTION = "backup.json"
PASSWORD = "password"
_ARCHIVES = re.compile(r"^\s*archive_mode\b", re.MULTILINE)
#: How long a restored database may take for the archived log.
RECOVERY_TIMEOUT_S = 24 * 3600.0


class BackupError(EmbeddedServerError):
    """The backup could not be made, is damaged or is none; the message says which."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup is.

    Attributes:
        finished_at: when it was complete, ISO 8601 in UTC; what was committed before is in it.
        revision: of the schema.
        postgresql: PostgreSQL's major version.
        telesto: the version that made it.
        size_bytes: of its files.
    """

    finished_at: str
    revision: str | None
    postgresql: int
    telesto: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Restored:
    """The backup that was restored, the database's identities, and whether archiving was turned off."""

    backup: Backup
    renewal: Renewal
    archiving_ended: bool


def make_backup(url: str, target: Path, *, check: bool = True) -> Backup:
    """Back up the running server at `url` into the new directory `target`.

    The directory appears when the backup is complete. With `check` a copy of it is started, which needs its
    size once more beside it, for the time of the check.

    Raises:
        BackupError: `target` exists, or pg_basebackup or the check failed.
        EmbeddedServerError, SchemaError: the copy does not start, or holds no Telesto.
    """
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise BackupError(f"{target} exists; a backup is written into a new directory")
    binaries = find_binaries()
    unfinished = target.with_name(f"{target.name}.new-{os.getpid()}")
    try:
        unfinished.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise BackupError(f"{unfinished} cannot be created ({error.strerror})") from error
    with _removed_on_failure(unfinished):
        parts = urlsplit(url)
        password = parts.password or ""
        server = [f"--host={parts.hostname}", f"--port={parts.port}", f"--username={parts.username}"]
        options = ["--checkpoint=fast", "--wal-method=stream", "--no-password", "--manifest-checksums=SHA256"]
        cluster = unfinished / "postgresql"
        _run(
            [binaries.program("pg_basebackup"), f"--pgdata={cluster}", *server, *options],
            "the database could not be copied",
            PGPASSWORD=password,
        )
        _write(unfinished / PASSWORD, f"{password}\n")
        finished_at = datetime.now(UTC).isoformat(timespec="seconds")
        revision = _checked_revision(unfinished) if check else schema.current(url).revision
        size = sum(path.stat().st_size for path in cluster.rglob("*") if path.is_file())
        backup = Backup(finished_at, revision, binaries.major, VERSION, size)
        _write(unfinished / DESCRIPTION, json.dumps(asdict(backup), indent=2) + "\n")
        unfinished.rename(target)
    _sync(target.parent)
    return backup


def restore_backup(
    source: Path, data_dir: Path, *, archive: Path | None = None, until: datetime | None = None
) -> Restored:
    """Restore a backup into a data directory that has no database yet, and give it a new identity.

    The restored database does not archive its log, whatever its settings said. A process of root's becomes
    one of the account that owns the data, for good, once the files are there.

    Args:
        source: a directory that `make_backup` made.
        data_dir: new, or a data directory without a database.
        archive: a directory with PostgreSQL's archived log: what it holds is recovered too.
        until: recover only what was committed before this moment; needs `archive`.

    Raises:
        BackupError: `source` is no backup or is damaged; the archive does not reach to `until`, or
            `until` is before the backup was complete.
        EmbeddedServerError, SchemaError: the database does not start, or holds no Telesto.
    """
    backup = read_backup(source)
    # PostgreSQL would ignore it if nothing was committed during the backup.
    if until is not None and until < datetime.fromisoformat(backup.finished_at):
        raise BackupError(
            f"--until {until.isoformat()} is before the backup was complete ({backup.finished_at}); "
            "restore an older backup"
        )
    if archive is not None:
        archive = archive.expanduser().resolve()
    _verify(source)
    files = DataDirectory(data_dir.expanduser().resolve())
    files.create()
    if files.cluster.exists():
        raise DataDirectoryError(files.path, "has a database; a backup is restored into a new data directory")
    archived = _copy(source, files)
    with _removed_on_failure(files.cluster):
        # With this file the restored database gets a timeline of its own, also without an archive, so that
        # its log cannot be taken for that of the original.
        (files.cluster / "recovery.signal").touch(mode=0o600)
        files.become_owner()
        settings = {
            "restore_command": _restore_command(archive),
            "recovery_target_action": "promote",
            "hot_standby": "off",  # else it would count as started before it is recovered
        }
        if until is not None:
            settings["recovery_target_time"] = until.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00")
        with (
            _explained_recovery(),
            EmbeddedServer(files.path, settings=settings, start_timeout_s=RECOVERY_TIMEOUT_S) as server,
        ):
            renewal = renew_incarnation(server.url, alone=True)
    return Restored(backup, renewal, archived)


@contextmanager
def _explained_recovery() -> Iterator[None]:
    """Say in our terms why PostgreSQL could not recover to the moment that was asked for."""
    try:
        yield
    except StartFailedError as error:
        log = "\n".join(error.log_lines)
        if "recovery ended before configured recovery target was reached" in log:
            last = re.search(r"last completed transaction was at log time (\S+ \S+)", log)
            end = f"its last change is of {last[1]}" if last else "it has no change after the backup"
            raise BackupError(f"the archive does not reach to the moment of --until: {end}") from error
        raise


def _restore_command(archive: Path | None) -> str:
    if archive is None:
        return "false"
    try:
        unreadable = [path for path in archive.iterdir() if not os.access(path, os.R_OK)]
    except OSError as error:
        raise BackupError(f"the archive {archive} cannot be read ({error.strerror})") from error
    if unreadable:  # PostgreSQL would take such a file for the end of the archive
        raise BackupError(f"the account of the database may not read {unreadable[0]}")
    return f"cp {shlex.quote(str(archive)).replace('%', '%%')}/%f %p"


def read_backup(source: Path) -> Backup:
    """Read what a backup is. Raises BackupError if `source` is none."""
    try:
        backup = Backup(**json.loads((source / DESCRIPTION).read_text()))
        datetime.fromisoformat(backup.finished_at)
    except FileNotFoundError as error:
        raise BackupError(
            f"{source} is no backup: it has no {DESCRIPTION}; telesto backup makes one"
        ) from error
    except (OSError, ValueError, TypeError) as error:
        raise BackupError(f"{source / DESCRIPTION} cannot be read ({error})") from error
    return backup


def _checked_revision(backup: Path) -> str | None:
    """Start a copy of a backup; return the revision of its schema."""
    _verify(backup)
    copy = DataDirectory(backup.with_name(f"{backup.name}.check").resolve())
    try:  # The account that owns it gets the copy, so it must be new.
        copy.path.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700)
    except OSError as error:
        raise BackupError(f"{copy.path} cannot be created ({error.strerror})") from error
    try:
        _copy(backup, copy)
        with EmbeddedServer(copy.path) as server:
            return schema.current(server.url).revision
    finally:
        shutil.rmtree(copy.path, ignore_errors=True)


def _verify(backup: Path) -> None:
    """Raise BackupError unless all files of a backup are as pg_basebackup wrote them.

    Its log is not among them: recovery reads that, and stops where it is damaged. pg_verifybackup does the
    same, but the one in the wheel of PostgreSQL 18 crashes.
    """
    # Those of a stranger would have root read and write other files.
    link = next((path for path in backup.rglob("*") if path.is_symlink()), None)
    if link is not None:
        raise BackupError(f"the backup {backup} is damaged: {link} is a symbolic link")
    cluster = backup / "postgresql"
    try:
        for entry in json.loads((cluster / "backup_manifest").read_text())["Files"]:
            name = entry["Path"] if "Path" in entry else os.fsdecode(bytes.fromhex(entry["Encoded-Path"]))
            with (cluster / name).open("rb") as file:
                checksum = hashlib.file_digest(file, entry["Checksum-Algorithm"]).hexdigest()
            if checksum != entry["Checksum"]:
                raise BackupError(f"the backup {backup} is damaged: {name} has changed")
    except (OSError, KeyError, ValueError) as error:
        raise BackupError(f"the backup {backup} is damaged: {error}") from error


def _copy(backup: Path, files: DataDirectory) -> bool:
    """Copy the cluster of a backup into a data directory, for the account that owns the latter.

    The copy does not archive its log; return whether the original did. In the archive of the original it
    would be taken for its newer timeline, and the next recovery would follow the copy.
    """
    found = files.path.stat()
    account = account_for(found.st_uid, found.st_gid)
    with _removed_on_failure(files.cluster):
        try:
            shutil.copytree(backup / "postgresql", files.cluster, symlinks=True)
            shutil.copyfile(backup / PASSWORD, files.password_file)
        except (OSError, shutil.Error) as error:
            raise BackupError(f"{backup} cannot be copied to {files.path} ({error})") from error
        files.password_file.chmod(0o600)
        own_settings = files.cluster / "postgresql.auto.conf"
        archived = any(
            _ARCHIVES.search(path.read_text()) for path in (files.cluster / USER_FILE, own_settings)
        )
        if archived:
            with own_settings.open("a") as file:  # as ALTER SYSTEM would: it wins over all other files
                file.write("archive_mode = 'off'\n")
        if os.geteuid() == 0:
            for path in (files.password_file, files.cluster, *files.cluster.rglob("*")):
                os.chown(path, account.uid, account.gid, follow_symlinks=False)
    os.sync()
    return archived


def _run(command: list[str], problem: str, **variables: str) -> None:
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**clean_environment(), **variables},
        check=False,
    )
    if done.returncode:
        raise BackupError(f"{problem}: {'; '.join(last_lines(done.stdout))}")


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        path.chmod(0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _removed_on_failure(directory: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
