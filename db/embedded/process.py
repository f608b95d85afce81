"""The server process of the embedded PostgreSQL: started, watched and stopped."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from telesto.db.embedded.binaries import clean_environment

HOUSEKEEPING_INTERVAL_S = 600.0
POLL_INTERVAL_S = 0.01
FAST_SHUTDOWN_S = 60.0
IMMEDIATE_SHUTDOWN_S = 10.0
ORPHANS_GRACE_S = 5.0


class Postmaster:
    """A running postmaster and the thread that started it.

    The kernel ends the postmaster when the *thread* that started it ends. So a separate thread starts it and
    lives as long as the postmaster or this process, whichever thread uses the server.
    """

    def __init__(self, command: list[str], start_log: Path, housekeeping: Callable[[], None]) -> None:
        self._command = command
        self._start_log = start_log
        self._housekeeping = housekeeping
        self._spawned = threading.Event()
        self._exited = threading.Event()
        self._failure: OSError | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        """Start the process and return as soon as it exists. Raises OSError if it cannot be created."""
        threading.Thread(target=self._hold, name="telesto-postmaster", daemon=True).start()
        self._spawned.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def pid(self) -> int:
        """Return the process id of the postmaster."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Tell whether the process has not ended."""
        return not self._exited.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the process to end; return whether it did within `timeout_s` seconds."""
        return self._exited.wait(timeout_s)

    def shut_down(self) -> None:
        """Stop the server: fast (open transactions roll back), then without a checkpoint, then by force."""
        for signal_number, patience_s in _ESCALATION:
            self._send(signal_number)
            if self._exited.wait(patience_s):
                return

    def _send(self, signal_number: int) -> None:
        assert self._process is not None
        self._process.send_signal(signal_number)

    def _hold(self) -> None:
        try:
            with self._start_log.open("wb") as log:
                self._process = self._create(log.fileno())
        except OSError as error:
            self._failure = error
            self._exited.set()
            return
        finally:
            self._spawned.set()
        self._watch(self._process)
        self._exited.set()

    def _create(self, log: int) -> subprocess.Popen[bytes]:
        # A separate session: Ctrl-C at a terminal goes to the owner, which then stops PostgreSQL.
        return subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=clean_environment(),
            start_new_session=True,
        )

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        try:
            ended = os.pidfd_open(process.pid)
        except OSError:
            process.wait()
            return
        try:
            while not select.select([ended], [], [], HOUSEKEEPING_INTERVAL_S)[0]:
                self._housekeeping()
            process.wait()
        finally:
            os.close(ended)


_ESCALATION = (
    (signal.SIGINT, FAST_SHUTDOWN_S),
    (signal.SIGQUIT, IMMEDIATE_SHUTDOWN_S),
    (signal.SIGKILL, IMMEDIATE_SHUTDOWN_S),
)


def end_leftovers(cluster: Path) -> None:
    """End the rest of a server on `cluster` whose owner is gone, and remove its stale pid file.

    The caller holds the directory's lock, so a server that still runs here has no owner. It may be shutting
    down already, or have lost its postmaster, and its address and settings may differ: it is ended, not
    reused.
    """
    pid_file = cluster / "postmaster.pid"
    postmaster = postmaster_pid(cluster)
    if postmaster is not None and not _is_server(postmaster, cluster):
        postmaster = None
        _forget_reused_pid(pid_file)
    if postmaster is not None:
        _end_postmaster(postmaster, cluster)
    _end_orphans(cluster)


def postmaster_pid(cluster: Path) -> int | None:
    """Return the process id that the pid file names; None without a file."""
    lines = pid_file_lines(cluster)
    return abs(int(lines[0])) if lines and lines[0].strip().lstrip("-").isdigit() else None


def pid_file_lines(cluster: Path) -> list[str]:
    """Return the lines of the postmaster's pid file (pid, directory, start, port, ..., status)."""
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_ready(cluster: Path) -> bool:
    """Tell whether the server on `cluster` accepts connections, by its pid file."""
    lines = pid_file_lines(cluster)
    return len(lines) >= 8 and lines[7].strip() == "ready"


def _forget_reused_pid(pid_file: Path) -> None:
    """Remove a pid file whose number belongs to another program now, as happens in small containers.

    PostgreSQL itself would take that program for its server and refuse to start. If no process has the
    number, the file stays: PostgreSQL judges it better, by the shared memory that it names.
    """
    pid = postmaster_pid(pid_file.parent)
    if pid is not None and _exists(pid):
        pid_file.unlink(missing_ok=True)


def _end_postmaster(pid: int, cluster: Path) -> None:
    for signal_number, patience_s in _ESCALATION:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_number)
        if _wait_until(lambda: not _is_server(pid, cluster), patience_s):
            return


def _end_orphans(cluster: Path) -> None:
    """Wait for backends without a postmaster (they notice soon), then end them by force."""
    if _wait_until(lambda: not _server_processes(cluster), ORPHANS_GRACE_S):
        return
    for pid in _server_processes(cluster):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait_until(lambda: not _server_processes(cluster), ORPHANS_GRACE_S)


def _server_processes(cluster: Path) -> list[int]:
    numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in numbers if _is_server(pid, cluster)]


def _is_server(pid: int, cluster: Path) -> bool:
    """Tell whether a process belongs to a server on `cluster`, by its working directory.

    If the working directory is hidden (another account's, without the right to trace it), the command line
    still identifies the postmaster.
    """
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(cluster)
    except PermissionError:
        return _command_names(pid, cluster)
    except OSError:
        return False


def _command_names(pid: int, cluster: Path) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.path.basename(arguments[0]) == b"postgres" and os.fsencode(cluster) in arguments


def _exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True
