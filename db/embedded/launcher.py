"""Becomes one of PostgreSQL's programs: drops root, arranges to end with the caller, then executes it.

It runs as a script in its own interpreter (``python -I -S launcher.py owner uid gid program arguments...``),
because Python code between fork and exec is not safe in a process with threads. It imports nothing of
Telesto, and as little of the standard library as possible, because it delays every start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PRIVATE_UMASK = 0o077


def become(uid: int, gid: int) -> None:
    """Switch from root to the given account, unless this process already runs as `uid`."""
    if os.geteuid() == uid:
        return
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def die_with(owner: int) -> None:
    """Let the kernel send SIGINT (a fast shutdown for PostgreSQL) when the thread that started us ends.

    It must follow `become`, because the kernel cancels the request when the credentials change.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != owner:
        sys.exit("the process that started PostgreSQL is gone")


def main(arguments: list[str]) -> None:
    """Execute the program named by the arguments; returns only by an exception."""
    owner, uid, gid, program, *rest = arguments
    become(int(uid), int(gid))
    die_with(int(owner))
    os.umask(PRIVATE_UMASK)
    os.execv(program, [program, *rest])


if __name__ == "__main__":
    main(sys.argv[1:])
