"""The audit log: who did what, as lines of JSON in a file of its own, in a table, or in both.

What was done is complete: its line is written before the client has the answer. What was refused is bounded,
because clients can cause it at any rate: equal refusals of an address are counted in one line.
"""

from __future__ import annotations

import logging.handlers
import os
from collections import deque
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Any

from telesto.middleware.common import logs
from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.event_log import EventLog

_log = logs.logger("audit")


class AuditFileError(Exception):
    """The file cannot be written."""


#: How many lines may wait for the database.
_LINES_MAX = 10_000


class AuditLog:
    """Writes the audit log.

    A file that was moved away is made anew, so that logrotate needs no signal. If it cannot be written, the
    service goes on, and the log says so.

    Attributes:
        on: whether it is written at all.
        in_file: whether there is a file.
        for_table: the lines that are to be put into the table, oldest first.
        failures: lines that were lost.
    """

    def __init__(
        self, path: Path | None, clock: Callable[[], float], deadlines: Deadlines, *, in_table: bool = False
    ) -> None:
        """Opens the file. Raises AuditFileError."""
        self.in_file = path is not None
        self.on = self.in_file or in_table
        self.for_table: deque[str] = deque()
        self._in_table = in_table
        self.failures = 0
        self._failing = False
        self._refusals = EventLog("audit", clock, deadlines)
        self._file = None if path is None else AuditFile(path)

    def done(self, event: str, **fields: Any) -> None:
        """Writes that something was done."""
        self._write(event, "done", fields)

    def in_doubt(self, event: str, **fields: Any) -> None:
        """Writes that something may have been done."""
        self._write(event, "in_doubt", fields)

    def refused(self, event: str, key: Hashable, **fields: Any) -> None:
        """Writes that something was refused. Those of one event and key are counted after the first."""
        if self.on:
            self._refusals.note(self._refuse, event, key, fields)

    def _refuse(self, event: str, **fields: Any) -> None:
        self._write(event, "refused", fields)

    def from_table(self, event: str, at: datetime, fields: dict[str, Any]) -> None:
        """Writes into the file what was changed in SQL."""
        self._append(self._line(event, "done", fields, at))

    def _write(self, event: str, outcome: str, fields: dict[str, Any]) -> None:
        if not self.on:
            return
        line = self._line(event, outcome, fields, datetime.now(UTC))
        self._append(line)
        if self._in_table:
            if len(self.for_table) >= _LINES_MAX:
                self.for_table.popleft()
                self.failures += 1
            self.for_table.append(line)

    def _line(self, event: str, outcome: str, fields: dict[str, Any], at: datetime) -> str:
        line = {
            "time": at.isoformat(timespec="microseconds"),
            "pid": os.getpid(),
            "middleware": logs.middleware_id(),
            "event": event,
            "outcome": outcome,
            **{name: value for name, value in fields.items() if value is not None},
        }
        return dumps(line, default=str)

    def _append(self, line: str) -> None:
        if self._file is None:
            return
        try:
            self._file.append(line)
        except OSError as error:
            self.failures += 1
            if not self._failing:
                _log.error("audit_log_unwritable", reason=error.strerror)
            self._failing = True
        else:
            self._failing = False

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


class AuditFile(logging.handlers.WatchedFileHandler):
    """A file that is opened again when it was moved away, readable by its owner only."""

    def __init__(self, path: Path) -> None:
        """Opens it. Raises AuditFileError."""
        try:
            super().__init__(path)
        except OSError as error:
            raise AuditFileError(f"cannot write {path}: {error.strerror}") from error

    def _open(self) -> Any:
        # Without a buffer: each line is one write, because processes may share the file.
        return open(self.baseFilename, "ab", buffering=0, opener=_private)

    def append(self, text: str) -> None:
        """Appends a line. Raises OSError."""
        self.reopenIfNeeded()
        if self.stream is None:  # it could not be opened the last time
            self.stream = self._open()
            self._statstream()
        os.write(self.stream.fileno(), f"{text}\n".encode())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
