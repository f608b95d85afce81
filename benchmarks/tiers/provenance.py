"""Where figures come from: machine, versions, the state of the source."""

from __future__ import annotations

import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import telesto.benchmarks
from telesto.benchmarks.tiers.machine import describe_machine, file_system

PACKAGES: Final = ("telesto-mq", "asyncpg", "psycopg", "uvloop", "numpy", "pyarrow", "hdrhistogram")


def describe(directory: Path) -> dict[str, object]:
    """Return what a reader of the figures needs to judge them."""
    return {
        "machine": describe_machine() | {"file system": file_system(directory)},
        "versions": {package: _version(package) for package in PACKAGES},
        "source": source_state(),
    }


def source_state() -> dict[str, object]:
    """Return the commit of the source and whether it was changed since; None for either that is unknown."""
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
