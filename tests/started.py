"""Starts a program as a process of a test: signals end it as usual, and in the end it ends by itself.

A process that a shell started in the background ignores SIGINT, one under nohup SIGHUP, and so does all that
it starts: without this the outcome of a test would depend on how the tests were started.

Put `STARTED` before a command. It runs as a script in an interpreter of its own, because Python code between
fork and exec is not safe in a process with threads.
"""

from __future__ import annotations

import os
import signal
import sys

STARTED = [sys.executable, "-I", "-S", __file__]
"""What to put before the command line of a process."""

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
LIMIT_S = 300
"""No process of a test runs longer, should the test itself be killed; an alarm survives the exec."""


def main(command: list[str]) -> None:
    """Execute a command; comes back only by an exception."""
    for name in SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.alarm(LIMIT_S)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
