"""Searches what a whole run of the tests has written for passwords.

Every password of the tests has `hunter2` in it. It must not stand in anything that tests, services and
commands write: what a test prints and logs, and all files below the run's temporary directory. Files from
which a service or a command reads a password are named `password...`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

SECRET = "hunter2"
#: What PostgreSQL keeps its tables in: of passwords they have what they are checked by.
_TABLES = {"base", "global", "pg_wal"}
_PIECE = 1 << 20


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Fail a test that prints or logs a password, or whose service does."""
    for title, text in report.sections:
        if SECRET in text and report.passed:
            at = text.index(SECRET)
            report.outcome = "failed"
            report.longrepr = f"{title} shows a password: {text[max(0, at - 200) : at + 200]}"


def leaking_files(directory: Path) -> Iterator[Path]:
    """The files below a directory that have a password and should not."""
    for path, names, files in os.walk(directory):
        names[:] = [name for name in names if name not in _TABLES]
        if "pyproject.toml" in files:  # a copy of the sources, these tests among them
            names.clear()
            continue
        for name in files:
            if not name.startswith("password") and _leaks(Path(path, name)):
                yield Path(path, name)


def _leaks(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():  # a socket, or a pipe
        return False
    end = b""
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                if SECRET.encode() in end + piece:
                    return True
                end = piece[-len(SECRET) :]
    except OSError:  # it has gone
        return False
    return False
