"""An embedded PostgreSQL: a private server in a data directory, started and stopped with its owner.

It listens on 127.0.0.1 only, by TCP (only there ``tcp_user_timeout`` detects a hung client), with a generated
password. It needs no administration: the first start creates the directory, and the next start repairs the
effects of a crash of the owner or the machine. Linux only.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from telesto.db.embedded.account import Account, let_pass
from telesto.db.embedded.ballast import Ballast
from telesto.db.embedded.binaries import Binaries, find_binaries, launch_command
from telesto.db.embedded.cluster import DATABASE, SUPERUSER, DataDirectory
from telesto.db.embedded.errors import (
    BinariesMissingError,
    DataDirectoryError,
    DataDirectoryInUseError,
    DataDirectoryVersionError,
    EmbeddedServerError,
    StartFailedError,
)
from telesto.db.embedded.lock import DirectoryLock
from telesto.db.embedded.process import (
    POLL_INTERVAL_S,
    Postmaster,
    end_leftovers,
    is_ready,
    pid_file_lines,
    postmaster_pid,
)
from telesto.db.embedded.settings import (
    free_mib,
    identity_settings,
    memory_mib,
    queue_settings,
    write_own_settings,
)

__all__ = [
    "BinariesMissingError",
    "DataDirectoryError",
    "DataDirectoryInUseError",
    "DataDirectoryVersionError",
    "EmbeddedServer",
    "EmbeddedServerError",
    "StartFailedError",
    "running_url",
]

HOST = "127.0.0.1"
START_TIMEOUT_S = 300.0
START_ATTEMPTS = 3
# A second attempt may succeed: the port was taken between our check and PostgreSQL's, or a backend of a
# killed server had not noticed its end yet.
_PASSING_TROUBLE = ("could not create any TCP/IP sockets", "pre-existing shared memory block")


class EmbeddedServer:
    """A PostgreSQL server in `data_dir`, owned by this process.

    The server ends with its owner, even if that is killed. All methods block (a first start takes some
    seconds, a later one less than one) and may be called from any thread, e.g. by ``asyncio.to_thread``.

    Args:
        data_dir: created if necessary; one owner at a time.
        binaries: directory of PostgreSQL's programs; by default those of the installed wheel.
        settings: PostgreSQL settings that replace Telesto's own (the user's ``user.conf`` overrides both).
        start_timeout_s: how long the server may take to start, including recovery after a crash.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._files = DataDirectory(Path(data_dir).expanduser().resolve())
        self._binaries = binaries
        self._settings = dict(settings or {})
        self._start_timeout_s = start_timeout_s
        self._lock = DirectoryLock(self._files.path)
        self._ballast = Ballast(self._files.path / "ballast")
        self._calls = threading.Lock()
        self._owner: int | None = None
        self._postmaster: Postmaster | None = None
        self._url: str | None = None

    @property
    def data_dir(self) -> Path:
        """Return the data directory, absolute."""
        return self._files.path

    @property
    def cluster(self) -> Path:
        """Return PostgreSQL's own directory in the data directory."""
        return self._files.cluster

    @property
    def url(self) -> str:
        """Return the address of the database, ``postgresql://user:password@127.0.0.1:port/telesto``."""
        if self._url is None:
            raise EmbeddedServerError(f"the server in {self.data_dir} has not been started")
        return self._url

    @property
    def running(self) -> bool:
        """Tell whether the server runs."""
        return self._postmaster is not None and self._postmaster.running

    @property
    def pid(self) -> int | None:
        """Return the process id of the postmaster; None if it does not run."""
        return self._postmaster.pid if self._postmaster is not None and self._postmaster.running else None

    def start(self) -> None:
        """Start the server unless it runs, and return when it accepts connections.

        It may be called again after the server ended by itself or by `stop`; it keeps its port if possible.

        Raises:
            BinariesMissingError: PostgreSQL is not installed.
            DataDirectoryInUseError: another service owns the directory.
            DataDirectoryError: the directory cannot be used.
            StartFailedError: the server ended at once or took too long; shows its log.
        """
        with self._calls:
            if self.running:
                return
            self._take_directory()
            try:
                self._start()
            except BaseException:
                self._let_go()
                raise

    def stop(self) -> None:
        """Stop the server (open transactions roll back) and release the directory.

        In a forked child of the owner it does nothing: the server belongs to the parent.
        """
        if self._owner != os.getpid():
            return
        with self._calls:
            self._let_go()

    def mind_disk(self) -> bool:
        """Reserve some space on the disk; return True if the disk was full and PostgreSQL got that space.

        To be called about once a second.
        """
        return self._ballast.adjust()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _take_directory(self) -> None:
        if self._owner is not None:
            return
        self._files.create()
        # On a full disk not even the lock file could be written.
        self._ballast.release()
        self._lock.acquire()
        self._owner = os.getpid()

    def _let_go(self) -> None:
        if self._postmaster is not None and self._postmaster.running:
            self._postmaster.shut_down()
            end_leftovers(self._files.cluster)
        self._postmaster = None
        self._url = None
        self._owner = None
        self._lock.release()

    def _start(self) -> None:
        binaries = find_binaries(self._binaries)
        account = self._files.account()
        end_leftovers(self._files.cluster)
        let_pass(binaries.directory, account)
        if not self._files.initialised:
            self._files.initialise(binaries, account)
        self._files.check_version(binaries)
        if not self._files.password_file.exists():
            self._files.renew_password(binaries, account)
        settings = {**queue_settings(memory_mib(), free_mib(self._files.path)), **self._settings}
        write_own_settings(self._files.cluster, settings, account)
        self._files.prepare_log(account)
        self._run(binaries, account)

    def _run(self, binaries: Binaries, account: Account) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        for attempt in range(1, START_ATTEMPTS + 1):
            port = free_port(self._files.last_port)
            try:
                self._postmaster = self._run_once(binaries, account, port, deadline)
            except StartFailedError as error:
                if attempt == START_ATTEMPTS or not _is_passing(error):
                    raise
                continue
            self._files.port_file.write_text(f"{port}\n")
            self._url = _url(self._files.password, port)
            return

    def _run_once(self, binaries: Binaries, account: Account, port: int, deadline: float) -> Postmaster:
        arguments = ["-D", str(self._files.cluster)]
        for name, value in identity_settings(port, self._files.log_dir).items():
            arguments += ["-c", f"{name}={value}"]
        command = launch_command(account, binaries.program("postgres"), arguments)
        postmaster = Postmaster(command, self._files.start_log, self._files.prune_log)
        try:
            postmaster.spawn()
        except OSError as error:
            raise StartFailedError(f"PostgreSQL could not be executed ({error})", []) from error
        try:
            self._await_ready(postmaster, deadline)
        except BaseException:
            postmaster.shut_down()
            raise
        return postmaster

    def _await_ready(self, postmaster: Postmaster, deadline: float) -> None:
        cluster = self._files.cluster
        while not (postmaster_pid(cluster) == postmaster.pid and is_ready(cluster)):
            if postmaster.wait(POLL_INTERVAL_S):
                # The process that writes the log ends last; only then does the log have the reason.
                end_leftovers(cluster)
                problem = f"PostgreSQL in {self.data_dir} did not start"
                raise StartFailedError(problem, self._files.last_log_lines())
            if time.monotonic() >= deadline:
                problem = f"PostgreSQL in {self.data_dir} was not ready after {self._start_timeout_s:g} s"
                raise StartFailedError(problem, self._files.last_log_lines())


def running_url(data_dir: Path | str) -> str | None:
    """Return the URL of the server that another process runs in `data_dir`; None if none is ready.

    For tools next to a running service. Needs the right to read the password file.
    """
    files = DataDirectory(Path(data_dir).expanduser().resolve())
    lines = pid_file_lines(files.cluster)
    if not is_ready(files.cluster) or not os.path.exists(f"/proc/{int(lines[0])}"):
        return None
    return _url(files.password, int(lines[3]))


def _url(password: str, port: int) -> str:
    return f"postgresql://{SUPERUSER}:{password}@{HOST}:{port}/{DATABASE}"


def _is_passing(error: StartFailedError) -> bool:
    return any(trouble in line for line in error.log_lines for trouble in _PASSING_TROUBLE)


def free_port(preferred: int | None) -> int:
    """Return `preferred` if it is free, else a free port."""
    for port in (preferred or 0, 0):
        with socket.socket() as probe:
            # As PostgreSQL does: closing connections of the last run do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise EmbeddedServerError(f"there is no free TCP port on {HOST}")
