"""The errors of the embedded PostgreSQL, one exception for each possible action of the user."""

from __future__ import annotations

from pathlib import Path


class EmbeddedServerError(Exception):
    """Base of all errors of the embedded server."""


class BinariesMissingError(EmbeddedServerError):
    """PostgreSQL's programs were not found or cannot be run on this machine."""


class DataDirectoryError(EmbeddedServerError):
    """The data directory cannot be used: it is not writable, has another owner, or is full."""

    def __init__(self, data_dir: Path, problem: str) -> None:
        super().__init__(f"data directory {data_dir}: {problem}")
        self.data_dir = data_dir


class DataDirectoryInUseError(DataDirectoryError):
    """Another process owns the data directory; `pid` is that process (None if unknown)."""

    def __init__(self, data_dir: Path, pid: int | None) -> None:
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(data_dir, f"is in use by {holder}; stop that service or choose another directory")
        self.pid = pid


class DataDirectoryVersionError(DataDirectoryError):
    """The data directory was created by another major version of PostgreSQL."""

    def __init__(self, data_dir: Path, found: str, wanted: int) -> None:
        super().__init__(
            data_dir,
            f"was made by PostgreSQL {found}, but PostgreSQL {wanted} is installed; move the data with "
            f"pg_dump or pg_upgrade, or install the package version that brings PostgreSQL {found}",
        )
        self.found = found
        self.wanted = wanted


class StartFailedError(EmbeddedServerError):
    """PostgreSQL did not start; the message ends with the last lines of its log."""

    def __init__(self, problem: str, log_lines: list[str]) -> None:
        self.problem = f"{problem}; {'the last lines of its log:' if log_lines else 'nothing was logged'}"
        super().__init__("\n  ".join([self.problem, *log_lines]))
        self.log_lines = log_lines
