"""The origin of figures: the machine, the versions, the state of the source."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import telesto.benchmarks

PACKAGES: Final = ("telesto-mq", "asyncpg", "psycopg", "uvloop", "numpy", "pyarrow", "hdrhistogram")
_TOLD: Final = ("telesto-mq", "asyncpg", "uvloop")


def describe_machine() -> dict[str, str]:
    """Return what a reader needs to interpret figures: time, processors, memory, versions, load."""
    description = {
        "taken": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processors": f"{os.cpu_count()} x {_processor()}",
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "load average before": f"{os.getloadavg()[0]:.1f}",
    }
    return description | {package: _version(package) or "absent" for package in _TOLD}


def _processor() -> str:
    """Return the processor's name, or its architecture if the kernel does not give it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def file_system(path: Path) -> str:
    """Return the type of the file system that holds `path`: in memory, a flush costs nothing."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [(point, kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    return max(holding, key=lambda mount: len(mount[0]))[1]


def describe(directory: Path) -> dict[str, object]:
    """Return the origin of figures: machine, versions, source."""
    return {
        "machine": describe_machine() | {"file system": file_system(directory)},
        "versions": {package: _version(package) for package in PACKAGES},
        "source": source_state(),
    }


def source_state() -> dict[str, object]:
    """Return the commit of the source and whether it was changed since; None for what is unknown."""
    folder = Path(str(telesto.benchmarks.__file__)).parent
    commit = _git(folder, "rev-parse", "HEAD")
    changes = None if commit is None else _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "changed": None if changes is None else bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
