"""The bodies of messages: from an argument, a file or standard input."""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error

STANDARD_INPUT = "-"
BODY_BYTES_MAX = 16 << 20
"""A longer body or line is refused before it is read completely; the service's own limit is lower."""

LINGER_S = 0.05
"""How long a line waits for others to be put with, in seconds."""
_READ_BYTES = 65_536


@dataclass(frozen=True)
class LineSource:
    """A file to be read line by line; `size_bytes` is None if the size is unknown (a pipe)."""

    name: str
    file: BinaryIO
    size_bytes: int | None

    def groups(self, messages_max: int, bytes_max: int) -> Iterator[list[bytes]]:
        """The lines without their newline, otherwise unchanged, in groups.

        A group ends with `messages_max` lines or `bytes_max` bytes, and `LINGER_S` after its first line, so
        that no line waits for a slow input. A line is whole with its newline, or at the end.

        Raises CommandError for a line beyond BODY_BYTES_MAX, behind the group of those before it.
        """
        reader = _LineReader(self.file.fileno())
        before = 0
        while (line := reader.next_line(None)) is not None:
            group: list[bytes] = []
            size = 0
            until = time.monotonic() + LINGER_S
            while line is not None and len(line) <= BODY_BYTES_MAX:
                group.append(line)
                size += len(line)
                full = len(group) == messages_max or size >= bytes_max
                line = None if full else reader.next_line(until)
            if group:
                yield group
                before += len(group)
            if line is not None:
                raise CommandError(
                    f"line {before + 1} of {self.name} is longer than {BODY_BYTES_MAX} bytes; "
                    f"the {before} lines before it were put",
                    ExitCode.USAGE,
                )


class _LineReader:
    """Reads lines from a descriptor; a wait for the next one can end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._whole: deque[bytes] = deque()
        self._begun = bytearray()
        self._ended = False

    def next_line(self, until: float | None) -> bytes | None:
        """The next line without its newline; None at the end, or if none comes `until` then (monotonic).

        Of a line beyond BODY_BYTES_MAX it returns a part that is too long, too.
        """
        while not self._whole and not self._ended and len(self._begun) <= BODY_BYTES_MAX:
            wait_ms = None if until is None else max(0, math.ceil((until - time.monotonic()) * 1000))
            if not self._poll.poll(wait_ms):
                return None
            self._read()
        if self._whole:
            return self._whole.popleft()
        if not self._begun:
            return None
        line = bytes(self._begun)
        self._begun.clear()
        return line

    def _read(self) -> None:
        """Read what is there."""
        piece = os.read(self._descriptor, _READ_BYTES)
        self._ended = not piece
        first, *others = piece.split(b"\n")
        self._begun += first
        for line in others:
            self._whole.append(bytes(self._begun))
            self._begun[:] = line


def check_one_given(body: str | None, lines: Path | None, file: Path | None) -> None:
    """Raise CommandError unless exactly one source of messages is given."""
    given = [source for source in (body, lines, file) if source is not None]
    if len(given) == 1:
        return
    problem = "more than one thing to put" if given else "nothing to put"
    raise usage_error(f"{problem}; give one of: BODY, - (standard input), --file FILE, --lines FILE")


def read_body(body: str | None, file: Path | None) -> bytes:
    """The one message to put. Raises CommandError when it cannot be read or is too long."""
    if body is not None and body != STANDARD_INPUT:
        return os.fsencode(body)
    with opened(file if file is not None else Path(STANDARD_INPUT)) as source:
        content = source.file.read(BODY_BYTES_MAX + 1)
    if len(content) > BODY_BYTES_MAX:
        raise usage_error(f"{source.name} is longer than {BODY_BYTES_MAX} bytes, which no message can be")
    return content


@contextmanager
def opened(path: Path) -> Iterator[LineSource]:
    """Open a file, or standard input for `-`. Raises CommandError when it cannot be opened or read."""
    if str(path) == STANDARD_INPUT:
        yield LineSource("standard input", sys.stdin.buffer, None)
        return
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size or None
            yield LineSource(repr(str(path)), file, size)
    except OSError as error:
        if error.filename is None or Path(error.filename) != path:
            raise
        raise usage_error(f"cannot read {str(path)!r}: {error.strerror}") from error
