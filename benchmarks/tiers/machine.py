"""Where figures were taken: the machine and the versions."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("telesto-mq", "asyncpg", "uvloop")


def describe_machine() -> dict[str, str]:
    """Return what a reader needs to judge figures: time, processors, memory, versions, load."""
    description = {
        "taken": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processors": f"{os.cpu_count()} x {_processor()}",
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "load average before": f"{os.getloadavg()[0]:.1f}",
    }
    return description | {package: _version(package) for package in _PACKAGES}


def _processor() -> str:
    """Return the processor's name, or its architecture where the kernel does not say."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def file_system(path: Path) -> str:
    """Return the type of the file system that holds `path`: in memory, a flush costs nothing."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [(point, kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    return max(holding, key=lambda mount: len(mount[0]))[1]
