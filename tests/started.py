"""Starts a program as a process of a test: signals end it as usual, and it does not outlive the tests.

A process that a shell started in the background ignores SIGINT, one under nohup SIGHUP, and so does all that
it starts: without this the outcome of a test would depend on how the tests were started.

Put `STARTED` before a command. It runs as a script in an interpreter of its own, because Python code between
fork and exec is not safe in a process with threads. Start it from a thread that lives as long as the process:
the kernel takes the end of the thread for the end of the tests.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

TYPE_CHECKING = False  # of typing, which takes longer to load than all the rest
if TYPE_CHECKING:
    import subprocess
    from typing import Any

STARTED = [sys.executable, "-I", "-S", __file__]
"""What to put before the command line of a process."""

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
LIMIT_S = 3_600
"""No process of a test runs longer; an alarm survives the exec.

The service of a module serves all of its tests, which may take far more than 300 seconds where much runs."""
END_S = 60.0
"""How long a process may take to end in order."""
PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> None:
    """Execute a command; comes back only by an exception."""
    for name in SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    end_with_parent()
    signal.alarm(LIMIT_S)
    os.execvp(command[0], command)


def end_with_parent() -> None:
    """Have the kernel kill this process, even a stopped one, when the thread that started it is gone."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the tests that started this process are gone")


def end(process: subprocess.Popen[Any]) -> None:
    """Let a process end in order, even a stopped one; kill one that does not."""
    from subprocess import TimeoutExpired

    process.terminate()
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(END_S)
    except TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
