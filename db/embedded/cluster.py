"""The files of the embedded server: its data directory, created once and checked at every start.

Layout of a data directory: ``postgresql/`` (the cluster, owned by the account that PostgreSQL runs as),
``log/`` (PostgreSQL's log), ``password``, ``port`` (of the last run), ``owner.lock``, ``start.log``
(PostgreSQL's output before it opened its log).
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from telesto.db.embedded.account import Account, account_for, become, give, let_pass
from telesto.db.embedded.binaries import Binaries, find_binaries, run_program
from telesto.db.embedded.errors import DataDirectoryError, DataDirectoryVersionError, StartFailedError
from telesto.db.embedded.settings import add_includes

SUPERUSER = "telesto"
DATABASE = "telesto"
LOG_LINES_SHOWN = 20
LOG_FILES_KEPT = 10
FREE_BYTES_MIN = 256 * 1024 * 1024
LOCALE_PROVIDER_SINCE = 17
#: The files beside the cluster and the log.
OWN_FILES = ("password", "port", "owner.lock", "start.log", "ballast")
#: What else may be in a data directory that root gives away: a file system's own directory.
_NOT_OURS = ("lost+found",)


class DataDirectory:
    """One data directory: its paths and their content."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cluster = path / "postgresql"
        self.log_dir = path / "log"
        self.start_log = path / "start.log"
        self.password_file = path / "password"
        self.port_file = path / "port"

    @property
    def initialised(self) -> bool:
        """Tell whether the cluster exists."""
        return (self.cluster / "PG_VERSION").is_file()

    @property
    def password(self) -> str:
        """Return the superuser's password."""
        return self.password_file.read_text().strip()

    @property
    def last_port(self) -> int | None:
        """Return the port of the last run; None before the first."""
        try:
            text = self.port_file.read_text().strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() else None

    def create(self) -> None:
        """Create the directory if necessary, and check that this process may write to it.

        Raises DataDirectoryError if it cannot be created or written.
        """
        try:
            if not self.path.exists():
                self.path.mkdir(parents=True, mode=0o711 if os.geteuid() == 0 else 0o700)
        except OSError as error:
            raise DataDirectoryError(self.path, f"cannot be created ({error.strerror})") from error
        if not self.path.is_dir():
            raise DataDirectoryError(self.path, "is not a directory")
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise DataDirectoryError(self.path, "is not writable for this user")
        if (self.path / "PG_VERSION").exists():
            raise DataDirectoryError(
                self.path, "is a PostgreSQL cluster itself; give Telesto a directory of its own"
            )

    def account(self) -> Account:
        """Return the account that PostgreSQL runs as here, and give it access to the cluster.

        Raises DataDirectoryError if the cluster belongs to another user.
        """
        found = (self.cluster if self.cluster.exists() else self.path).stat()
        account = account_for(found.st_uid, found.st_gid)
        if self.cluster.exists() and found.st_uid not in (account.uid, 0):
            raise DataDirectoryError(
                self.path, f"holds data of user {found.st_uid}; start the service as that user"
            )
        let_pass(self.path, account)
        return account

    def become_owner(self) -> Account | None:
        """Turn this process, if it is root's, into one of the account that owns the data.

        That account gets the directory, if it is root's. Call it before anything else is done here: what root
        does in a directory of another account, that account could turn against root. Returns the account;
        None if this process is not root's.

        Raises DataDirectoryError if the directory has other files too, or another owner than the data;
        EmbeddedServerError if the account cannot be created or may not read Telesto itself.
        """
        if os.geteuid() != 0:
            return None
        self.create()
        account = self.account()
        owner = self.path.stat().st_uid
        if owner not in (0, account.uid):
            raise DataDirectoryError(
                self.path, f"belongs to user {owner}, but the data in it to {account.name}; chown it"
            )
        if owner == 0:
            self._require_only_ours()
            os.chown(self.path, account.uid, account.gid)
        for name in OWN_FILES:
            _give_file(self.path / name, account)
        let_pass(find_binaries().directory, account)
        become(account)
        return account

    def _require_only_ours(self) -> None:
        ours = {self.cluster.name, self.log_dir.name, *OWN_FILES, *_NOT_OURS}
        others = sorted(
            path.name
            for path in self.path.iterdir()
            if path.name not in ours and not path.name.startswith(f"{self.cluster.name}.new-")
        )
        if others:
            raise DataDirectoryError(
                self.path, f"has other files in it ({others[0]!r}); give Telesto a directory of its own"
            )

    def check_version(self, binaries: Binaries) -> None:
        """Raise DataDirectoryVersionError unless the cluster has the installed major version."""
        found = (self.cluster / "PG_VERSION").read_text().strip()
        if found != str(binaries.major):
            raise DataDirectoryVersionError(self.path, found, binaries.major)

    def initialise(self, binaries: Binaries, account: Account) -> None:
        """Create the cluster in a temporary directory and rename it, so that a crash leaves none or all of
        it.

        Raises DataDirectoryError if there is not enough space or a part of a cluster is there,
        StartFailedError if PostgreSQL's own programs fail.
        """
        if self.cluster.is_dir() and any(self.cluster.iterdir()):
            raise DataDirectoryError(
                self.path,
                f"holds a part of a database: {self.cluster} has files, but no PG_VERSION; move it, then "
                "restore a backup here (telesto restore), or begin with an empty database",
            )
        self._require_space()
        for unfinished in self.path.glob("postgresql.new-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        fresh = self.path / f"postgresql.new-{os.getpid()}"
        fresh.mkdir(mode=0o700)
        give(fresh, account)
        try:
            self._write_password(account)
            self._run_initdb(binaries, account, fresh)
            single_user(binaries, account, fresh, f"CREATE DATABASE {DATABASE}", "postgres")
            add_includes(fresh, account)
            fresh.rename(self.cluster)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise

    def renew_password(self, binaries: Binaries, account: Account) -> None:
        """Set a new superuser password after the loss of the password file; the server must be stopped.

        Raises StartFailedError if PostgreSQL refuses.
        """
        self._write_password(account)
        statement = f"ALTER ROLE {SUPERUSER} PASSWORD '{self.password}'"
        try:
            single_user(binaries, account, self.cluster, statement, DATABASE)
        except BaseException:
            self.password_file.unlink()
            raise

    def _write_password(self, account: Account) -> None:
        descriptor = os.open(self.password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, 0o600)
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(descriptor)
        # initdb reads the file as that account.
        give(self.password_file, account)

    def _run_initdb(self, binaries: Binaries, account: Account, fresh: Path) -> None:
        options = [
            f"--pgdata={fresh}",
            f"--username={SUPERUSER}",
            f"--pwfile={self.password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--data-checksums",
            "--no-instructions",
        ]
        if binaries.major >= LOCALE_PROVIDER_SINCE:
            # Sort order and character classes are the same on every machine and after every upgrade.
            options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        succeeded, output = run_program(account, binaries.program("initdb"), options)
        if not succeeded:
            raise StartFailedError(f"the data directory {self.path} could not be made", last_lines(output))

    def _require_space(self) -> None:
        found = os.statvfs(self.path)
        free = found.f_bavail * found.f_frsize
        if free < FREE_BYTES_MIN:
            raise DataDirectoryError(
                self.path, f"has {free} bytes free, but a new database needs {FREE_BYTES_MIN} to begin with"
            )

    def prepare_log(self, account: Account) -> None:
        """Create the directory of PostgreSQL's log and keep only its newest files."""
        self.log_dir.mkdir(mode=0o700, exist_ok=True)
        give(self.log_dir, account)
        self.prune_log()

    def prune_log(self) -> None:
        """Remove the oldest files of the log."""
        for path in self._log_files()[:-LOG_FILES_KEPT]:
            path.unlink(missing_ok=True)

    def last_log_lines(self) -> list[str]:
        """Return the end of the server's output since its last start."""
        text = _read(self.start_log)
        newest = self._log_files()[-1:]
        if newest and newest[0].stat().st_mtime >= self.start_log.stat().st_mtime:
            text += _read(newest[0])
        return last_lines(text)

    def _log_files(self) -> list[Path]:
        return sorted(self.log_dir.glob("postgresql-*.log"))


def _give_file(path: Path, account: Account) -> None:
    """Give a file of root's to `account`; not what the account may have put there to get another one."""
    with suppress(OSError):  # it is missing, or a link
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if found.st_uid == 0 and found.st_nlink == 1 and stat.S_ISREG(found.st_mode):
                os.fchown(descriptor, account.uid, account.gid)
        finally:
            os.close(descriptor)


def single_user(binaries: Binaries, account: Account, cluster: Path, statement: str, database: str) -> None:
    """Execute one statement without a server. Raises StartFailedError if it fails."""
    arguments = ["--single", "-D", str(cluster), "-c", "log_min_error_statement=panic", database]
    succeeded, output = run_program(account, binaries.program("postgres"), arguments, statement + "\n")
    if not succeeded or "ERROR:" in output:
        raise StartFailedError(f"PostgreSQL could not prepare {cluster}", last_lines(output))


def last_lines(text: str) -> list[str]:
    """Return the last lines of a log's text, for an error message."""
    return [line for line in text.splitlines() if line.strip()][-LOG_LINES_SHOWN:]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
