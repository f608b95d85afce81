"""CPU seconds, resident memory and open-file limits, from /proc and the kernel."""

import os
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Positions in /proc/PID/stat after the command's closing parenthesis.
_PARENT, _OWN_TIMES, _TIMES_WITH_REAPED = 1, slice(11, 13), slice(11, 15)


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU seconds that these processes have used, user and system."""
    return sum(_seconds(pid, _OWN_TIMES) for pid in pids)


def tree_cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process, its children, and the children that have ended."""
    return _seconds(root, _TIMES_WITH_REAPED) + cpu_seconds(children(root))


def family_cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process, its descendants, and the descendants that have ended."""
    parents = _parents()
    family, generation = {root}, {root}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation} - family
        family |= generation
    return sum(_seconds(pid, _TIMES_WITH_REAPED) for pid in family)


def children(parent: int) -> list[int]:
    """Return the children of a process."""
    return [pid for pid, its_parent in _parents().items() if its_parent == parent]


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 if it is gone."""
    fields = _fields(pid)
    return int(fields[_PARENT]) if fields else 0


def private_bytes(pid: int) -> int:
    """Return the memory that a process shares with no other; 0 if it is gone."""
    return _status_bytes(pid, "RssAnon")


def shared_bytes(pid: int) -> int:
    """Return the shared memory that a process has touched; 0 if it is gone."""
    return _status_bytes(pid, "RssShmem")


def peak_resident_bytes(pid: int) -> int:
    """Return the peak resident memory of a process; 0 if it is gone."""
    return _status_bytes(pid, "VmHWM")


def raise_open_files(wanted: int) -> int:
    """Raise the limit of open files for this process and its children; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
    except (ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _parents() -> dict[int, int]:
    """Return the parent of each process."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return {pid: parent_of(pid) for pid in pids}


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command; empty if the process is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 2 :].split()


def _status_bytes(pid: int, name: str) -> int:
    """Return a size from /proc/PID/status, which counts in KiB."""
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def _seconds(pid: int, which: slice) -> float:
    return sum(int(ticks) for ticks in _fields(pid)[which]) / _TICKS_PER_S
